#include "tools/rankcast/kinds.h"

#include "rankcast/error.h"
#include "rankcast/mesh.h"

namespace rankcast::tools {

namespace {

Kind probe(const std::string& name, const std::string& device, const std::string& link) {
  MeshOptions options;
  options.devices = device;
  options.link = link;
  try {
    Mesh::open(options).close();
    return {name, {}};
  } catch (const Error& error) {
    return {name, error.what()};
  }
}

}  // namespace

std::vector<Kind> probe_devices() {
  std::vector<Kind> kinds;
  for (const std::string kind : {"cpu", "null"}) {
    kinds.push_back(probe(kind, kind + ":0", "thread"));
  }
  return kinds;
}

std::vector<Kind> probe_links() {
  std::vector<Kind> kinds;
  for (const std::string link : {"thread", "process"}) {
    kinds.push_back(probe(link, "null:0", link));
  }
  return kinds;
}

}  // namespace rankcast::tools
