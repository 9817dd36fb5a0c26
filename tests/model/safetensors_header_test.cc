#include "model/safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <utility>

#include "support/expect_error.h"
#include "support/safetensors_bytes.h"

namespace rankcast::model {
namespace {

using test::safetensors_bytes;
using testing::HasSubstr;

SafetensorsHeader parsed(const std::string& file) {
  return parse_safetensors_header(std::as_bytes(std::span(file)), file.size());
}

SafetensorsHeader parsed(std::string_view header, std::size_t data_bytes) {
  return parsed(safetensors_bytes(header, std::string(data_bytes, 'x')));
}

// What the parser says of a header with so many bytes of data behind it.
std::string refused(std::string_view header, std::size_t data_bytes = 0) {
  const auto error = test::error_of([&] { parsed(header, data_bytes); });
  if (!error) return {};
  EXPECT_EQ(error->code(), ErrorCode::invalid_argument);
  return error->what();
}

TEST(SafetensorsHeaderTest, ReadsTensorsInTheOrderOfTheirData) {
  const std::string header = R"({"b":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]},)"
                             R"("__metadata__":{"format":"pt","who":"me"},)"
                             R"("a":{"shape":[],"data_offsets":[0,8],"dtype":"I64"}}   )";
  const SafetensorsHeader result = parsed(header, 32);
  ASSERT_EQ(result.entries.size(), 2U);
  EXPECT_EQ(result.entries[0].name, "a");
  EXPECT_EQ(result.entries[0].dtype, DType::i64);
  EXPECT_TRUE(result.entries[0].extents.empty());
  EXPECT_EQ(result.entries[0].offset_bytes, 8 + header.size());
  EXPECT_EQ(result.entries[0].size_bytes, 8U);
  EXPECT_EQ(result.entries[1].name, "b");
  EXPECT_EQ(result.entries[1].dtype, DType::f32);
  EXPECT_THAT(result.entries[1].extents, testing::ElementsAre(2, 3));
  EXPECT_EQ(result.entries[1].offset_bytes, 8 + header.size() + 8);
  EXPECT_EQ(result.entries[1].size_bytes, 24U);
  EXPECT_THAT(result.metadata,
              testing::ElementsAre(testing::Pair("format", "pt"), testing::Pair("who", "me")));
}

TEST(SafetensorsHeaderTest, FilesWithoutTensors) {
  EXPECT_TRUE(parsed("{}", 0).entries.empty());
  EXPECT_EQ(parsed(R"({"__metadata__":{}})", 0).metadata.size(), 0U);
}

TEST(SafetensorsHeaderTest, EveryDType) {
  const std::pair<const char*, DType> types[] = {
      {"F64", DType::f64}, {"F32", DType::f32},     {"F16", DType::f16}, {"BF16", DType::bf16},
      {"I64", DType::i64}, {"I32", DType::i32},     {"I16", DType::i16}, {"I8", DType::i8},
      {"U8", DType::u8},   {"BOOL", DType::boolean}};
  for (const auto& [name, dtype] : types) {
    const std::size_t bytes = 3 * size_bytes(dtype);
    const auto result =
        parsed(std::string(R"({"t":{"dtype":")") + name + R"(","shape":[3],"data_offsets":[0,)" +
                   std::to_string(bytes) + "]}}",
               bytes);
    ASSERT_EQ(result.entries.size(), 1U) << name;
    EXPECT_EQ(result.entries[0].dtype, dtype) << name;
    EXPECT_EQ(result.entries[0].size_bytes, bytes) << name;
  }
}

TEST(SafetensorsHeaderTest, NamesOfAnyCharacters) {
  const auto result = parsed(
      R"({"gr\u00fc\u00dfe \"\n\u0000":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1);
  ASSERT_EQ(result.entries.size(), 1U);
  EXPECT_EQ(result.entries[0].name, std::string("grüße \"\n\0", 11));
}

// The file around the header.

TEST(SafetensorsHeaderTest, FileTooShortForTheLength) {
  for (std::size_t size = 0; size < 8; ++size) {
    test::expect_error(ErrorCode::invalid_argument,
                       {"the file has " + std::to_string(size) + " bytes, too few"},
                       [&] { parsed(std::string(size, '\0')); });
  }
}

TEST(SafetensorsHeaderTest, LengthBeyondTheFile) {
  std::string file = safetensors_bytes("{}");
  file.pop_back();
  test::expect_error(ErrorCode::invalid_argument, {"the header has 2 bytes", "ends 1 bytes after"},
                     [&] { parsed(file); });
}

TEST(SafetensorsHeaderTest, LengthBeyondTheLimit) {
  for (const char* length : {"\x01\xe1\xf5\x05\0\0\0\0", "\xff\xff\xff\xff\xff\xff\xff\xff"}) {
    const std::string file = std::string(length, 8) + "{}";
    test::expect_error(ErrorCode::invalid_argument, {"more than 100000000", "hardly a safetensors"},
                       [&] { parsed(file); });
  }
}

TEST(SafetensorsHeaderTest, EmptyHeader) {
  EXPECT_THAT(refused(""), HasSubstr("does not begin with '{'"));
}

TEST(SafetensorsHeaderTest, HeaderThatIsNoObject) {
  EXPECT_THAT(refused("[]"), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(refused(" {}"), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(refused("\xef\xbb\xbf{}"), HasSubstr("does not begin with '{'"));
}

// JSON.

TEST(SafetensorsHeaderTest, BrokenJson) {
  EXPECT_THAT(refused("{"), HasSubstr("not valid JSON at byte 2"));
  EXPECT_THAT(refused(R"({"a")"), HasSubstr("not valid JSON at byte"));
  EXPECT_THAT(refused(R"({"a":})"), HasSubstr("not valid JSON at byte 6"));
  EXPECT_THAT(refused("{,}"), HasSubstr("not valid JSON at byte 2"));
  EXPECT_THAT(refused("{/**/}"), HasSubstr("not valid JSON at byte"));
}

TEST(SafetensorsHeaderTest, SomethingBehindTheObject) {
  EXPECT_THAT(refused("{}x"), HasSubstr("not valid JSON at byte 3"));
  EXPECT_THAT(refused("{}{}"), HasSubstr("not valid JSON at byte 3"));
}

TEST(SafetensorsHeaderTest, NulInTheHeader) {
  EXPECT_THAT(refused(std::string_view("{}\0\0", 4)), HasSubstr("not valid JSON at byte 3: a NUL"));
  EXPECT_THAT(refused(std::string_view("{\"\0\":1}", 7)), HasSubstr("byte 3: a NUL"));
}

TEST(SafetensorsHeaderTest, TextThatIsNoUtf8) {
  EXPECT_THAT(refused("{\"\xff\xfe\":{}}"), HasSubstr("not valid JSON at byte"));
}

TEST(SafetensorsHeaderTest, NestingIsRefusedBeforeItGrows) {
  const std::string deep(100'000, '[');
  EXPECT_THAT(refused("{\"a\":" + deep), HasSubstr("must be an object, found an array"));
}

// Names.

TEST(SafetensorsHeaderTest, NameGivenTwice) {
  const std::string tensor = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_EQ(refused("{" + tensor + "," + tensor + "}", 1), "the name \"a\" is given twice");
  EXPECT_EQ(refused(R"({"__metadata__":{},"__metadata__":{}})"),
            "the name \"__metadata__\" is given twice");
}

TEST(SafetensorsHeaderTest, PropertyGivenTwice) {
  EXPECT_EQ(refused(R"({"a":{"dtype":"U8","dtype":"U8"}})"),
            "tensor \"a\": \"dtype\" is given twice");
  EXPECT_EQ(refused(R"({"a":{"shape":[1],"shape":[1]}})"),
            "tensor \"a\": \"shape\" is given twice");
  EXPECT_EQ(refused(R"({"a":{"data_offsets":[0,1],"data_offsets":[0,1]}})"),
            "tensor \"a\": \"data_offsets\" is given twice");
}

TEST(SafetensorsHeaderTest, UnknownProperty) {
  EXPECT_THAT(refused(R"({"a":{"dtyp":"U8"}})"),
              HasSubstr("tensor \"a\": the key \"dtyp\" is none"));
}

TEST(SafetensorsHeaderTest, PropertyMissing) {
  EXPECT_EQ(refused(R"({"a":{}})"), "tensor \"a\": it has no \"dtype\"");
  EXPECT_EQ(refused(R"({"a":{"dtype":"U8"}})"), "tensor \"a\": it has no \"shape\"");
  EXPECT_EQ(refused(R"({"a":{"dtype":"U8","shape":[1]}})"),
            "tensor \"a\": it has no \"data_offsets\"");
}

TEST(SafetensorsHeaderTest, LongAndStrangeNamesMakeOneShortLine) {
  const std::string text = refused("{\"" + std::string(99, 'n') + R"(\u00e4\n\u0001)" +
                                   std::string(1000, 'n') + "\":1}");
  EXPECT_LT(text.size(), 250U);
  EXPECT_THAT(text, HasSubstr("\"" + std::string(99, 'n') + "\"..."));
  EXPECT_THAT(refused(R"({"a\n\"\u0001":1})"), HasSubstr(R"(tensor "a\x0a\"\x01")"));
}

// Types of values.

TEST(SafetensorsHeaderTest, DescriptionIsNoObject) {
  const std::pair<const char*, const char*> values[] = {
      {"1", "found 1"},
      {"-1", "found -1"},
      {"1.5", "found the number \"1.5\""},
      {"null", "found null"},
      {"true", "found true"},
      {"false", "found false"},
      {"[]", "found an array"},
      {"\"s\"", "found the string \"s\""},
  };
  for (const auto& [value, found] : values) {
    EXPECT_EQ(refused(std::string(R"({"a":)") + value + "}"),
              std::string("tensor \"a\": its description must be an object, ") + found);
  }
}

TEST(SafetensorsHeaderTest, DTypeIsNoString) {
  EXPECT_EQ(refused(R"({"a":{"dtype":32}})"), "tensor \"a\": \"dtype\" must be a string, found 32");
  EXPECT_EQ(refused(R"({"a":{"dtype":{}}})"),
            "tensor \"a\": \"dtype\" must be a string, found an object");
}

TEST(SafetensorsHeaderTest, DTypeNobodyHas) {
  for (const char* name : {"F8_E4M3", "F8_E5M2", "U16", "U32", "U64", "C64", "f32", "F32 ", ""}) {
    const std::string text = refused(std::string(R"({"w":{"dtype":")") + name + "\"}}");
    EXPECT_THAT(text, HasSubstr(std::string("tensor \"w\": dtype \"") + name +
                                "\" is not supported; those supported are F64 F32 F16 BF16 I64 I32 "
                                "I16 I8 U8 BOOL"));
  }
}

TEST(SafetensorsHeaderTest, ShapeIsNoArray) {
  EXPECT_EQ(refused(R"({"a":{"shape":3}})"),
            "tensor \"a\": \"shape\" must be an array of integers, found 3");
}

TEST(SafetensorsHeaderTest, ExtentIsNoPositiveInteger) {
  const auto with_extent = [](const std::string& extent) {
    return refused(R"({"a":{"shape":[2,)" + extent + "]}}");
  };
  const std::string start = "tensor \"a\": extent 1 of \"shape\" ";
  EXPECT_EQ(with_extent("-3"), start + "must be a positive integer, found -3");
  EXPECT_EQ(with_extent("2.0"), start + "must be a positive integer, found the number \"2.0\"");
  EXPECT_EQ(with_extent("1e3"), start + "must be a positive integer, found the number \"1e3\"");
  EXPECT_EQ(with_extent("\"3\""), start + "must be a positive integer, found the string \"3\"");
  EXPECT_EQ(with_extent("[3]"), start + "must be a positive integer, found an array");
  EXPECT_EQ(with_extent("null"), start + "must be a positive integer, found null");
  EXPECT_EQ(with_extent("0"), start + "is 0; tensors without elements are not supported");
  EXPECT_EQ(with_extent("9223372036854775808"),
            start + "is 9223372036854775808, which is too large");
  EXPECT_EQ(with_extent("18446744073709551616"),
            start + "must be a positive integer, found the number \"18446744073709551616\"");
}

TEST(SafetensorsHeaderTest, MoreExtentsThanATensorHas) {
  EXPECT_EQ(parsed(R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1)
                .entries[0]
                .extents.size(),
            8U);
  EXPECT_EQ(refused(R"({"a":{"shape":[1,1,1,1,1,1,1,1,1]}})"),
            "tensor \"a\": \"shape\" has more than 8 extents");
}

TEST(SafetensorsHeaderTest, OffsetsAreNotTwoIntegers) {
  const auto with_offsets = [](const std::string& offsets) {
    return refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":)" + offsets + "}}", 1);
  };
  EXPECT_THAT(with_offsets("1"), HasSubstr("must be an array of two integers, found 1"));
  EXPECT_THAT(with_offsets("[]"), HasSubstr("\"data_offsets\" has 0 numbers instead of two"));
  EXPECT_THAT(with_offsets("[0]"), HasSubstr("\"data_offsets\" has 1 numbers instead of two"));
  EXPECT_THAT(with_offsets("[0,1,2]"), HasSubstr("has more than two numbers"));
  EXPECT_THAT(with_offsets("[-1,0]"), HasSubstr("number 0 of \"data_offsets\" must be an integer "
                                                "that is not negative, found -1"));
  EXPECT_THAT(with_offsets("[0,1.5]"), HasSubstr("number 1 of \"data_offsets\""));
  EXPECT_THAT(with_offsets("[0,18446744073709551616]"), HasSubstr("number 1 of \"data_offsets\""));
}

TEST(SafetensorsHeaderTest, MetadataIsNoObjectOfStrings) {
  EXPECT_EQ(refused(R"({"__metadata__":[]})"),
            "\"__metadata__\" must be an object of strings, found an array");
  EXPECT_EQ(refused(R"({"__metadata__":{"k":1}})"),
            "the value of \"k\" in \"__metadata__\" must be a string, found 1");
  EXPECT_EQ(refused(R"({"__metadata__":{"k":{}}})"),
            "the value of \"k\" in \"__metadata__\" must be a string, found an object");
  EXPECT_EQ(refused(R"({"__metadata__":{"k":"1","k":"2"}})"),
            "\"__metadata__\" has the key \"k\" twice");
}

// Numbers against each other.

TEST(SafetensorsHeaderTest, OffsetsBackwards) {
  EXPECT_EQ(refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", 1),
            "tensor \"a\": its data end at 0, before they begin at 1");
}

TEST(SafetensorsHeaderTest, OffsetsLeaveTheFile) {
  EXPECT_EQ(refused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 1),
            "tensor \"a\": its data end at 2, and the file has only 1 bytes of data");
  EXPECT_THAT(
      refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,18446744073709551615]}})", 1),
      HasSubstr("its data end at 18446744073709551615"));
}

TEST(SafetensorsHeaderTest, OffsetsContradictTheShape) {
  EXPECT_EQ(refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,7]}})", 7),
            "tensor \"a\": f32[2] has 8 bytes, and its \"data_offsets\" span 7");
  EXPECT_EQ(refused(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,8]}})", 8),
            "tensor \"a\": f32[] has 4 bytes, and its \"data_offsets\" span 8");
}

TEST(SafetensorsHeaderTest, ProductsThatOverflow) {
  EXPECT_THAT(
      refused(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})"),
      HasSubstr("its shape [4294967296, 4294967296] has too many bytes"));
  EXPECT_THAT(
      refused(R"({"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})"),
      HasSubstr("too many bytes"));
}

TEST(SafetensorsHeaderTest, DataOverlap) {
  EXPECT_EQ(refused(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                    R"("b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                    4),
            "the data of the tensors \"a\" and \"b\" overlap");
  EXPECT_EQ(refused(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                    R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                    1),
            "the data of the tensors \"a\" and \"b\" overlap");
}

TEST(SafetensorsHeaderTest, DataHaveGaps) {
  EXPECT_EQ(refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})", 3),
            "2 bytes of data before those of tensor \"a\" belong to no tensor");
  EXPECT_EQ(refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                    R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
                    3),
            "1 bytes of data before those of tensor \"b\" belong to no tensor");
  EXPECT_EQ(refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 5),
            "the last 4 bytes of the file belong to no tensor");
  EXPECT_EQ(refused("{}", 1), "the last 1 bytes of the file belong to no tensor");
}

// Only what is read of the file need be there: sizes beyond any memory are checked as numbers.
TEST(SafetensorsHeaderTest, HugeFilesByTheirNumbers) {
  const std::string file = safetensors_bytes(
      R"({"a":{"dtype":"U8","shape":[9000000000000000000],"data_offsets":[0,9000000000000000000]}})");
  const auto result = parse_safetensors_header(std::as_bytes(std::span(file)),
                                               file.size() + 9'000'000'000'000'000'000U);
  EXPECT_EQ(result.entries.at(0).size_bytes, 9'000'000'000'000'000'000U);
}

// A correct header of some tensors, with one byte changed, is read or refused; nothing else.
RC_GTEST_PROP(SafetensorsHeaderProperty, OneChangedByteIsHarmless, ()) {
  std::string file = safetensors_bytes(
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"U8","shape":[],"data_offsets":[8,9]}})",
      std::string(9, 'd'));
  const auto at = *rc::gen::inRange<std::size_t>(0, file.size());
  file[at] = *rc::gen::arbitrary<char>();
  try {
    const SafetensorsHeader header = parsed(file);
    for (const auto& entry : header.entries) {
      RC_ASSERT(entry.offset_bytes + entry.size_bytes <= file.size());
    }
  } catch (const Error& error) {
    RC_ASSERT(error.code() == ErrorCode::invalid_argument);
  }
}

}  // namespace
}  // namespace rankcast::model
