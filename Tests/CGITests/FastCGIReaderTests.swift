import Bytes
import CGI
import TestSupport
import FuzzSupport
import Testing

@Suite struct `Responses of FastCGI servers` {
  /// What PHP-FPM sends: its head and body in records of its own sizes, a warning, and the end.
  static let response =
    record(7, Array("PHP message: oh".utf8), padding: 1) + stdout("Content-type: text/html\r\n\r\nhel", padding: 5)
    + stdout("lo", padding: 255) + record(6, []) + record(7, []) + end(appStatus: [0, 0, 1, 2], padding: 3)

  @Test func `streams come out without their records`() {
    let read = ReadFastCGI(Self.response)
    #expect(String(decoding: read.stdout, as: UTF8.self) == "Content-type: text/html\r\n\r\nhello")
    #expect(String(decoding: read.stderr, as: UTF8.self) == "PHP message: oh")
    #expect(read.stdoutEnd == read.stdout.count && read.fault == nil && read.faultAtClose == nil)
    #expect(read.end == FastCGIEnd(protocolStatus: .complete, appStatus: 258))
  }

  @Test func `every cut gives the same`() {
    let whole = ReadFastCGI(Self.response)
    for size in 1...Self.response.count { #expect(ReadFastCGI(Self.response, size: size) == whole, "\(size)") }
  }

  @Test(arguments: FuzzInput.all(of: "FuzzFastCGI")) func `inputs of the fuzzer are read the same in any pieces`(
    input: FuzzInput
  ) {
    for size in 1...9 { #expect(ReadFastCGI(input.text, size: size) == ReadFastCGI(input.text)) }
  }

  @Test func `a server may end the request without the end of STDOUT`() {
    let read = ReadFastCGI(stdout("x") + end())
    #expect(read.stdout == [0x78] && read.stdoutEnd == nil && read.end != nil && read.faultAtClose == nil)
  }

  @Test func `STDERR may come behind the end of STDOUT, and STDOUT may end twice`() {
    let read = ReadFastCGI(stdout("x") + record(6, []) + record(7, [0x79]) + record(6, []) + end())
    #expect(read.stdoutEnd == 1 && read.stderr == [0x79] && read.end != nil)
  }

  @Test(
    arguments: [
      (0, .complete), (1, .cannotMultiplex), (2, .overloaded), (3, .unknownRole), (200, .other(200)),
    ] as [(UInt8, FastCGIEnd.ProtocolStatus)])
  func `a server tells why it refuses a request`(byte: UInt8, status: FastCGIEnd.ProtocolStatus) {
    #expect(ReadFastCGI(end(byte, appStatus: [255, 255, 255, 255])).end?.protocolStatus == status)
    #expect(ReadFastCGI(end(byte, appStatus: [255, 255, 255, 255])).end?.appStatus == .max)
  }

  @Test(
    arguments: [
      (Array("HTTP/1.1 200 OK".utf8), .version(72)), (record(6, [1], version: 2), .version(2)),
      (record(1, [1]), .type(1)), (record(5, [1]), .type(5)), (record(11, [1]), .type(11)),
      (record(10, [], request: 0), .type(10)), (record(6, [1], request: 0), .request(0)),
      (record(6, [1], request: 2), .request(2)), (record(6, [1], request: 257), .request(257)),
      (record(3, []), .endLength(0)), (record(3, Array(repeating: 0, count: 9)), .endLength(9)),
      (record(6, []) + stdout("x"), .stdoutAfterItsEnd), (end() + [7], .byteAfterEnd(7)),
      (end() + stdout("x"), .byteAfterEnd(1)),
    ] as [([UInt8], FastCGIFault)])
  func `what isn't a response fails, in any pieces`(bytes: [UInt8], fault: FastCGIFault) {
    for size in [1, 2, 7, 8, 9, Int.max] {
      let read = ReadFastCGI(stdout("head") + bytes, size: size)
      #expect(read.fault == fault && read.stdout == Array("head".utf8))
    }
    #expect(fault.description.count > 10)
  }

  @Test func `what isn't FastCGI fails at its first byte`() {
    #expect(ReadFastCGI([0x48]).fault == .version(0x48))
    #expect(ReadFastCGI([1, 9]).fault == .type(9))
  }

  @Test func `a fault is final`() {
    var reader = FastCGIReader()
    for bytes: [UInt8] in [[2], [1], []] {
      #expect(bytes.withUnsafeBytes { reader.next($0) } == .failed(.version(2)))
    }
    #expect(!reader.isEnded && reader.faultAtEndOfStream() == .version(2))
  }

  @Test func `a response that its connection cuts off is truncated`() {
    for count in 0..<Self.response.count {
      let read = ReadFastCGI(Array(Self.response.prefix(count)))
      // Between its records, a response whose STDOUT has ended is whole.
      let isWhole = count == Self.response.count - 19 || count == Self.response.count - 19 - 8
      #expect(read.faultAtClose == (isWhole ? nil : .truncated), "\(count)")
      #expect(read.fault == nil && read.end == nil)
    }
  }

  @Test func `random responses come out as they went in`() {
    var random = SystemRandomNumberGenerator()
    for _ in 0..<200 {
      var bytes: [UInt8] = [], out: [UInt8] = [], errors: [UInt8] = []
      for _ in 0..<Int.random(in: 0...6, using: &random) {
        let content = (0..<Int.random(in: 1...300, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random)
        }
        let isError = Bool.random(using: &random)
        if isError { errors += content } else { out += content }
        bytes += record(isError ? 7 : 6, content, padding: Int.random(in: 0...255, using: &random))
      }
      bytes += record(6, []) + end()
      let read = ReadFastCGI(bytes, size: Int.random(in: 1...400, using: &random))
      #expect(read.stdout == out && read.stderr == errors && read.end != nil && read.fault == nil)
    }
  }

  @Test func `a full record takes no more memory than a small one`() {
    let content = (0..<65535).map { UInt8(truncatingIfNeeded: $0) }
    #expect(ReadFastCGI(record(6, content, padding: 1) + end(), size: 1000).stdout == content)
    #expect(MemoryLayout<FastCGIReader>.size <= 32)
  }
}
