import Bytes
import CGI
import FuzzSupport
import HTTP

/// The head of a program's response. The first byte chooses the request's method, whether a status line may come, the
/// bounds, and where the rest is cut.
///
/// Holds: the head is the same in any pieces; its status is a final one; nothing in it keeps or upgrades a connection,
/// or cuts a body into chunks; its fields, written as HTTP, are read as the same fields.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  guard count > 1 else { return 0 }
  let choice = start[0]
  let bytes = [UInt8](UnsafeBufferPointer(start: start + 1, count: count - 1))
  let method: Method = choice & 1 == 0 ? .get : .head
  let limits = HeadLimits(
    lineBytes: choice & 2 == 0 ? 8192 : 40, headBytes: choice & 4 == 0 ? 32768 : 120, ignoreInvalidNames: false,
    underscores: true)
  let kind = choice & 8 == 0 ? ProgramProtocol.scgi : .fastCGI(keepsConnection: true)
  let whole = ResponseHead(), pieces = ResponseHead()
  let outcome = read(bytes, [bytes.count], kind.responseStart, limits, method, whole)
  let cuts = Array(stride(from: 0, to: bytes.count, by: 1 + Int(choice >> 5))) + [bytes.count]
  let inPieces = read(bytes, cuts, kind.responseStart, limits, method, pieces)
  require(
    agree(
      outcome, inPieces,
      atLineEnd: read(
        bytes + [0x0A], cuts + [bytes.count + 1], kind.responseStart, limits, method, ResponseHead())))
  guard case .complete(let consumed) = outcome else { return 0 }
  require(consumed <= bytes.count && whole.byteCount == consumed && consumed <= limits.headBytes)
  require(model(whole) == model(pieces))
  require((200...999).contains(whole.status) && !whole.isInterim && !whole.keepsAlive && whole.upgrade == nil)
  require(whole.framing != .chunked && (method == .get || whole.framing == .none))

  let known = whole.bytes.readable
  for range in [whole.reason] + (redirect(whole).map { [$0] } ?? []) { require(range.end <= known.count) }
  var rebuilt = ByteBuffer()
  rebuilt.append("HTTP/1.1 ")
  rebuilt.append(decimal: UInt64(whole.status))
  rebuilt.append(" ")
  rebuilt.append(known[whole.reason])
  rebuilt.append("\r\n")
  for field in whole.fields where !field.isHopByHop {
    require(field.name.count > 0 && field.name.end < known.count && field.value.end < known.count)
    require(FieldValue.isValid(known[field.value]))
    HeadWriter.forward(field, of: known, to: &rebuilt)
  }
  rebuilt.append("\r\n")
  let again = ResponseHead()
  let generous = HeadLimits(lineBytes: 65536, headBytes: 65536, ignoreInvalidNames: false, underscores: true)
  require(
    read(Array(rebuilt.readable), [rebuilt.count], .statusLine, generous, method, again)
      == .complete(consumed: rebuilt.count))
  require(again.status == whole.status && again.framing == whole.framing)
  require(again.fields.count == whole.fields.filter { !$0.isHopByHop }.count)
  return 0
}

private func redirect(_ head: ResponseHead) -> ByteRange? {
  switch ProgramRedirect(of: head) {
  case .none: nil
  case .local(let range), .client(let range): range
  }
}

private func read(
  _ bytes: [UInt8], _ cuts: [Int], _ start: ResponseStart, _ limits: HeadLimits, _ method: Method, _ head: ResponseHead
) -> HeadOutcome {
  var parser = HeadParser()
  return read(bytes, cuts) {
    parser.response($0, limits: limits, requestMethod: method, startsWith: start, into: head)
  }
}

/// All that a head says, as text.
private func model(_ head: ResponseHead) -> String {
  let bytes = head.bytes.readable
  var lines = ["\(head.status)", "\(Array(bytes[head.reason]))", "\(head.framing)", "\(head.announcedLength ?? 0)"]
  for field in head.fields {
    lines.append("\(Array(bytes[field.name])) \(Array(bytes[field.value])) \(field.id) \(field.isHopByHop)")
  }
  return lines.joined(separator: "\n")
}
