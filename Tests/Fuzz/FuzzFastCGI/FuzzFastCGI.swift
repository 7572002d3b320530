import Bytes
import CGI
import FuzzSupport

/// What a FastCGI server sends, in pieces: the first byte is the size of a piece. The rest is also a request: its bytes
/// are names and values of parameters, and a body.
///
/// Holds: what comes out of a response is the same in any pieces; content lies in the input; nothing comes after the
/// end or a fault. A request is records of the right form, which have all bytes of its parameters and its body.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  let bytes = Array(UnsafeBufferPointer(start: start, count: count))
  guard let size = bytes.first, size > 0 else { return 0 }
  let input = Array(bytes.dropFirst())
  require(ReadFastCGI(input, size: Int(size)) == ReadFastCGI(input, size: max(1, input.count)))
  for kind: ProgramProtocol in [.fastCGI(keepsConnection: true), .scgi, .uwsgi(modifier1: 0, modifier2: 1)] {
    send(input, cut: Int(size), by: kind)
  }
  return 0
}

/// Sends each line of the input as a parameter, and the input as the body.
private func send(_ input: [UInt8], cut: Int, by kind: ProgramProtocol) {
  var block = ParameterBlock(kind)
  var sum = 0
  for line in input.split(separator: 0x0A) {
    let name = Array(line.prefix(cut)), value = Array(line.dropFirst(cut))
    let before = block.count
    let isSent = name.withUnsafeBytes { name in
      value.withUnsafeBytes { value in
        do {
          try block.add(name, value)
          return true
        } catch {
          return false
        }
      }
    }
    require(isSent || block.count == before)
    require(!isSent || !(name + value).contains(0) && !name.contains(0x3D))
    // SCGI's own parameters are dropped.
    if block.count > before { sum += name.count + value.count + 2 }
  }
  require(block.count >= sum && block.count <= kind.parameterBytes)
  var head = ByteBuffer(), body = ByteBuffer()
  block.kind.appendHead(parameters: block.bytes, contentLength: UInt64(input.count), to: &head)
  input.withUnsafeBytes { kind.appendBody($0, to: &body) }
  kind.appendBodyEnd(to: &body)
  guard case .fastCGI = kind else {
    require(body.readable.elementsEqual(input) && head.count > block.count)
    return
  }
  require(content(of: Array(head.readable), type: 4, first: 1) == Array(block.bytes))
  require(content(of: Array(body.readable), type: 5, first: nil) == input)
}

/// The content of a stream of records, the last of which is empty.
private func content(of bytes: [UInt8], type: UInt8, first: UInt8?) -> [UInt8] {
  var content: [UInt8] = []
  var at = 0, first = first, isEnded = false
  while at < bytes.count {
    let count = Int(bytes[at + 4]) << 8 | Int(bytes[at + 5])
    require(!isEnded && bytes[at] == 1 && bytes[at + 1] == first ?? type && bytes[at + 3] == 1)
    if first == nil {
      content += bytes[at + 8..<at + 8 + count]
      isEnded = count == 0
    }
    first = nil
    at += 8 + count + Int(bytes[at + 6])
    require(at % 8 == 0)
  }
  require(isEnded)
  return content
}
