import Bytes
import Features
import FuzzSupport

/// Texts and a body. The first byte says whether each text is replaced once, and how the body is cut; lines up to an empty
/// one are the texts.
///
/// Holds: what comes out is the same in any pieces and with any room, and what the rule says: the text that begins first, of
/// several the first of the list, is replaced.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  guard count > 1, count < 4096 else { return 0 }
  let choice = start[0]
  let lines = Array(UnsafeBufferPointer(start: start + 1, count: count - 1))
    .split(separator: 0x0A, omittingEmptySubsequences: false).map(Array.init)
  let texts = Array(lines.prefix { !$0.isEmpty }.prefix(16))
  let body = Array(lines.dropFirst(texts.count + 1).joined(separator: [0x0A]))
  guard !texts.isEmpty else { return 0 }
  let isOnce = choice & 1 == 1
  let whole = replaced(texts, body, isOnce, piece: max(1, body.count), room: .max)
  require(whole == replaced(texts, body, isOnce, piece: 1 + Int(choice >> 4), room: .max))
  require(whole == replaced(texts, body, isOnce, piece: 1 + Int(choice >> 4), room: 1 + Int(choice >> 1 & 7)))
  require(whole == expected(texts, body, isOnce))
  return 0
}

private func replacement(_ text: Int) -> [UInt8] { Array("<\(text)>".utf8) }

private func replaced(_ texts: [[UInt8]], _ body: [UInt8], _ isOnce: Bool, piece: Int, room: Int) -> [UInt8] {
  var replacer = TextReplacer(SearchTable(texts), isOnce: isOnce)
  var whole: [UInt8] = [], output = ByteBuffer(), rest = body[...]
  while !rest.isEmpty {
    var bytes = Array(rest.prefix(piece))
    rest = rest.dropFirst(piece)
    while !bytes.isEmpty {
      let count = bytes.withUnsafeBytes { replacer.replace($0, to: &output, room: room, replacement) }
      require(count <= bytes.count)
      bytes.removeFirst(count)
      whole += Array(output.readable)
      output.removeAll()
    }
  }
  var isWhole = false
  while !isWhole {
    isWhole = replacer.finish(to: &output, room: room, replacement)
    whole += Array(output.readable)
    output.removeAll()
  }
  return whole
}

private func lower(_ bytes: [UInt8]) -> [UInt8] { bytes.map { (0x41...0x5A).contains($0) ? $0 | 0x20 : $0 } }

private func expected(_ texts: [[UInt8]], _ body: [UInt8], _ isOnce: Bool) -> [UInt8] {
  let same = lower(body), texts = texts.map(lower)
  var whole: [UInt8] = [], start = 0, done: Set<Int> = []
  while start < body.count {
    if let found = texts.indices.first(where: { !done.contains($0) && same[start...].starts(with: texts[$0]) }) {
      whole += replacement(found)
      start += texts[found].count
      if isOnce { done.insert(found) }
    } else {
      whole.append(body[start])
      start += 1
    }
  }
  return whole
}
