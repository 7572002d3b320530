import Glibc
import HTTP
import Testing

/// What the fuzzers start from and what they once found, read again by every test run. As in the fuzz targets, the
/// first byte of a file is a choice and the rest is input.
@Suite struct `Fuzz inputs` {
  @Test(arguments: inputs(of: "FuzzRequestHead"))
  func `a request once fuzzed reads the same in pieces`(input: FuzzInput) {
    for limits in [HeadLimits(), HeadLimits(lineBytes: 40, headBytes: 120, fields: 5, ignoreInvalidNames: false)] {
      let ended = input.bytes + [0x0A]
      let whole = requestInPieces(ended, ends: [ended.count], limits: limits)
      let pieces = requestInPieces(ended, ends: Array(0...ended.count), limits: limits)
      #expect(whole == pieces || refusal(whole) != nil && refusal(pieces) != nil)
    }
  }

  @Test(arguments: inputs(of: "FuzzResponseHead"))
  func `a response once fuzzed reads the same in pieces`(input: FuzzInput) {
    for method in [Method.get, .head] {
      let ended = input.bytes + [0x0A]
      let whole = responseInPieces(ended, ends: [ended.count], to: method)
      let pieces = responseInPieces(ended, ends: Array(0...ended.count), to: method)
      #expect(whole == pieces || refusal(whole) != nil && refusal(pieces) != nil)
    }
  }

  @Test(arguments: inputs(of: "FuzzChunked"))
  func `a chunked body once fuzzed reads the same in pieces`(input: FuzzInput) {
    let whole = body(input.bytes), pieces = body(input.bytes, ends: Array(0...input.bytes.count))
    #expect(whole.data == pieces.data)
    #expect(whole.result == pieces.result)
    #expect(whole.trailers == pieces.trailers)
  }

  @Test func `there is something to replay`() {
    for target in ["FuzzRequestHead", "FuzzResponseHead", "FuzzChunked"] { #expect(inputs(of: target).count > 3) }
  }
}

struct FuzzInput: CustomTestStringConvertible {
  let name: String
  let bytes: [UInt8]
  var testDescription: String { name }
}

/// The files of a fuzz target's Corpus and Regressions, without their first byte.
func inputs(of target: String) -> [FuzzInput] {
  let tests = #filePath.split(separator: "/").dropLast(2).joined(separator: "/")
  return ["Corpus", "Regressions"].flatMap { folder -> [FuzzInput] in
    let path = "/\(tests)/Fuzz/\(target)/\(folder)"
    return names(in: path).sorted().map { FuzzInput(name: $0, bytes: Array(contents(of: "\(path)/\($0)").dropFirst())) }
  }
}

private func names(in path: String) -> [String] {
  guard let directory = opendir(path) else { return [] }
  defer { closedir(directory) }
  var names: [String] = []
  while let entry = readdir(directory) {
    let name = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    if !name.hasPrefix(".") { names.append(name) }
  }
  return names
}

private func contents(of path: String) -> [UInt8] {
  guard let file = fopen(path, "rb") else { return [] }
  defer { fclose(file) }
  var bytes = [UInt8](repeating: 0, count: 65536)
  let count = fread(&bytes, 1, bytes.count, file)
  return Array(bytes.prefix(count))
}
