import Bytes
import FuzzSupport
import HTTP

/// The first byte chooses limits and where the rest is cut; the rest is what a client sent.
///
/// Holds: ranges lie inside the head; no more is consumed than was given; bytes in pieces read as bytes at once; a head
/// that is rebuilt from its model reads as the same model.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  guard count > 1 else { return 0 }
  let choice = start[0]
  let bytes = [UInt8](UnsafeBufferPointer(start: start + 1, count: count - 1))
  let limits = HeadLimits(
    lineBytes: choice & 1 == 0 ? 8192 : 40, headBytes: choice & 2 == 0 ? 32768 : 120,
    fields: choice & 4 == 0 ? 1000 : 5,
    ignoreInvalidNames: choice & 8 == 0, underscores: choice & 16 == 0)
  let whole = RequestHead(), pieces = RequestHead()
  let outcome = read(bytes, [bytes.count], limits, whole)
  var cuts = stride(from: 0, to: bytes.count, by: 1 + Int(choice >> 5)).map { $0 }
  cuts.append(bytes.count)
  let inPieces = read(bytes, cuts, limits, pieces)
  require(agree(outcome, inPieces, atLineEnd: read(bytes + [0x0A], cuts + [bytes.count + 1], limits, RequestHead())))
  guard case .complete(let consumed) = outcome else { return 0 }
  require(consumed <= bytes.count && whole.byteCount <= consumed && whole.byteCount <= limits.headBytes)
  require(model(whole) == model(pieces))

  let known = whole.bytes.readable
  require(whole.target.raw.count > 0 && whole.host.end <= known.count && (whole.upgrade?.end ?? 0) <= known.count)
  let outgoing = OutgoingRequestHead()
  outgoing.reset(over: whole)
  defer { outgoing.reset(over: nil) }
  for field in whole.fields {
    require(field.name.count > 0 && field.name.end < known.count && field.value.end < known.count)
    require(FieldValue.isValid(known[field.value]))
    if let parent = TraceParent(known[field.value]) {
      require(parent.value.withUnsafeBytes { TraceParent($0) } == parent)
    }
    outgoing.forward(field)
  }
  var rebuilt = ByteBuffer()
  HTTP1Encoder.request(outgoing, whole.version == .http10 ? .http10 : .http11, to: &rebuilt)
  let again = RequestHead()
  var generous = limits
  generous.lineBytes += 4
  generous.headBytes = 65536
  require(read(Array(rebuilt.readable), [rebuilt.count], generous, again) == .complete(consumed: rebuilt.count))
  require(model(again) == model(whole))

  var path = ByteBuffer()
  for merges in [true, false] {
    path.removeAll()
    if TargetPath.normalize(path: known[whole.target.path], mergeSlashes: merges, into: &path) {
      require(path.readable.first == 0x2F && path.count <= max(1, Int(whole.target.path.count)))
      require(
        !path.readable.split(separator: 0x2F).contains { $0.elementsEqual([0x2E]) || $0.elementsEqual([0x2E, 0x2E]) })
    } else {
      require(path.isEmpty)
    }
    let sent = ReadPath.raw(known[whole.target.path])
    let possible = PathReadings.all.possible(for: sent)
    for reading in possible.readings(of: sent, mergesSlashes: merges) ?? [] {
      require(reading.first == 0x2F && reading.count <= Int(whole.target.path.count) + 1)
    }
    for reading in PathReadings([]).readings(of: sent, mergesSlashes: merges) ?? [] where !path.isEmpty {
      require(reading.elementsEqual(path.readable))
    }
  }
  return 0
}

func read(_ bytes: [UInt8], _ cuts: [Int], _ limits: HeadLimits, _ head: RequestHead) -> HeadOutcome {
  var parser = HeadParser()
  return read(bytes, cuts) { parser.request($0, limits: limits, into: head) }
}

/// All that a head says, as text.
func model(_ head: RequestHead) -> String {
  let bytes = head.bytes.readable
  func text(_ range: ByteRange?) -> String { range.map { "\(Array(bytes[$0]))" } ?? "-" }
  var lines = [
    text(head.methodRange), "\(head.method)", text(head.target.raw), text(head.target.path), text(head.target.query),
    text(head.target.authority), "\(head.target.form)", "\(head.version)", "\(head.framing)",
    "\(head.keepsAlive) \(head.expectsContinue) \(head.acceptsTrailers)", text(head.upgrade), text(head.host),
    "\(head.port ?? 0)",
  ]
  for field in head.fields { lines.append("\(text(field.name)) \(text(field.value)) \(field.id) \(field.isHopByHop)") }
  return lines.joined(separator: "\n")
}
