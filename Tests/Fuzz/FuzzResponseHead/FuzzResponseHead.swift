import Bytes
import FuzzSupport
import HTTP

/// The first byte chooses the request's method and where the rest is cut; the rest is what an upstream sent.
///
/// Holds: as in FuzzRequestHead.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  guard count > 1 else { return 0 }
  let choice = start[0]
  let bytes = [UInt8](UnsafeBufferPointer(start: start + 1, count: count - 1))
  let method: Method = choice & 1 == 0 ? .get : .head
  let limits = HeadLimits(lineBytes: choice & 2 == 0 ? 8192 : 40, headBytes: choice & 4 == 0 ? 32768 : 120)
  let whole = ResponseHead(), pieces = ResponseHead()
  let outcome = read(bytes, [bytes.count], limits, method, whole)
  var cuts = stride(from: 0, to: bytes.count, by: 1 + Int(choice >> 5)).map { $0 }
  cuts.append(bytes.count)
  let inPieces = read(bytes, cuts, limits, method, pieces)
  require(
    agree(outcome, inPieces, atLineEnd: read(bytes + [0x0A], cuts + [bytes.count + 1], limits, method, ResponseHead())))
  guard case .complete(let consumed) = outcome else { return 0 }
  require(consumed <= bytes.count && whole.byteCount == consumed && consumed <= limits.headBytes)
  require(model(whole) == model(pieces))
  require(whole.status >= 100 && whole.status <= 999)
  require(!(whole.framing == .untilClose && whole.keepsAlive))
  require(!(whole.isInterim && whole.framing != .none))

  let known = whole.bytes.readable
  var rebuilt = ByteBuffer()
  rebuilt.append("HTTP/1.1 ")
  rebuilt.append(decimal: UInt64(whole.status))
  rebuilt.append(" ")
  rebuilt.append(known[whole.reason])
  rebuilt.append("\r\n")
  for field in whole.fields {
    require(field.name.count > 0 && field.name.end < known.count && field.value.end < known.count)
    require(FieldValue.isValid(known[field.value]))
    HeadWriter.forward(field, of: known, to: &rebuilt)
  }
  rebuilt.append("\r\n")
  let again = ResponseHead()
  let generous = HeadLimits(lineBytes: 65536, headBytes: 65536)
  require(read(Array(rebuilt.readable), [rebuilt.count], generous, method, again) == .complete(consumed: rebuilt.count))
  // The status line is written with the version of the proxy, on which persistence and upgrades depend.
  if whole.version == .http11 { require(model(again) == model(whole)) }
  return 0
}

func read(
  _ bytes: [UInt8], _ cuts: [Int], _ limits: HeadLimits, _ method: Method, _ head: ResponseHead
) -> HeadOutcome {
  var parser = HeadParser()
  return read(bytes, cuts) { parser.response($0, limits: limits, requestMethod: method, into: head) }
}

/// All that a head says, as text.
func model(_ head: ResponseHead) -> String {
  let bytes = head.bytes.readable
  func text(_ range: ByteRange?) -> String { range.map { "\(Array(bytes[$0]))" } ?? "-" }
  var lines = [
    "\(head.status)", text(head.reason), "\(head.version)", "\(head.framing)", "\(head.announcedLength ?? 0)",
    "\(head.keepsAlive)", text(head.upgrade),
  ]
  for field in head.fields { lines.append("\(text(field.name)) \(text(field.value)) \(field.id) \(field.isHopByHop)") }
  return lines.joined(separator: "\n")
}
