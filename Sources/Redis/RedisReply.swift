/// A reply of a Redis or Valkey server (RESP2, https://redis.io/docs/latest/develop/reference/protocol-spec/).
public indirect enum RedisReply: Sendable, Equatable {
  /// A simple or a bulk string: any bytes.
  case text([UInt8])
  case number(Int64)
  /// The server refuses the command.
  case error(RedisRefusal)
  /// A null string or a null list.
  case none
  case list([RedisReply])
}

/// Why a server refuses a command: a code in capitals, and words.
public struct RedisRefusal: Sendable, Equatable, CustomStringConvertible {
  /// Such as `OOM` or `READONLY`.
  public let code: String
  /// The whole line, printable.
  public let description: String

  init(_ line: ArraySlice<UInt8>) {
    description = String(
      decoding: line.prefix(200).map { (0x20...0x7E).contains($0) ? $0 : UInt8(ascii: "?") }, as: UTF8.self)
    code = String(description.prefix { $0 != " " })
  }

  /// Whether the connection is of no use: another server has the data, or this one will be ready later.
  public var isOfConnection: Bool {
    [
      "READONLY", "LOADING", "MASTERDOWN", "MOVED", "ASK", "CLUSTERDOWN", "NOAUTH", "NOSCRIPT", "NOREPLICAS",
      "UNKILLABLE",
    ].contains(code)
  }
}

/// Reads replies, however the bytes are cut. A server that sends more than the bounds allow is one that can't be read.
public struct RedisReader: Sendable {
  /// The bytes that the server sent are no reply.
  public struct Malformed: Error, Equatable, Sendable {
    public let reason: String
  }

  /// The most bytes of one reply.
  public static let largestReply = 64 * 1024
  /// The most items of one list.
  public static let mostItems = 1024
  /// A list in a list in a list.
  public static let deepest = 4
  private static let longestLine = 512

  private var input: [UInt8] = []
  /// Where the next reply begins.
  private var position = 0

  public init() {}

  public mutating func append(_ bytes: UnsafeRawBufferPointer) {
    if position > 0 {
      input.removeFirst(position)
      position = 0
    }
    input += bytes
  }

  /// The next whole reply; nil: more bytes are needed.
  public mutating func next() throws(Malformed) -> RedisReply? {
    var cursor = position
    guard let reply = try reply(&cursor, depth: 0) else {
      if input.count - position > Self.largestReply { throw Malformed(reason: "a reply is too large") }
      return nil
    }
    position = cursor
    return reply
  }

  private func reply(_ cursor: inout Int, depth: Int) throws(Malformed) -> RedisReply? {
    guard let line = try line(&cursor), let kind = line.first else { return nil }
    let rest = line.dropFirst()
    switch kind {
    case UInt8(ascii: "+"): return .text(Array(rest))
    case UInt8(ascii: "-"): return .error(RedisRefusal(rest))
    case UInt8(ascii: ":"): return .number(try Self.number(rest))
    case UInt8(ascii: "$"): return try text(of: rest, &cursor)
    case UInt8(ascii: "*"): return try list(of: rest, &cursor, depth)
    default: throw Malformed(reason: "a reply begins with byte \(kind)")
    }
  }

  private func text(of count: ArraySlice<UInt8>, _ cursor: inout Int) throws(Malformed) -> RedisReply? {
    let count = try Self.number(count)
    if count == -1 { return RedisReply.none }
    guard (0...Int64(Self.largestReply)).contains(count) else { throw Malformed(reason: "a string of \(count) bytes") }
    let end = cursor + Int(count)
    guard input.count >= end + 2 else { return nil }
    guard input[end] == 0x0D, input[end + 1] == 0x0A else { throw Malformed(reason: "a string without its end") }
    let bytes = Array(input[cursor..<end])
    cursor = end + 2
    return .text(bytes)
  }

  private func list(of count: ArraySlice<UInt8>, _ cursor: inout Int, _ depth: Int) throws(Malformed) -> RedisReply? {
    let count = try Self.number(count)
    if count == -1 { return RedisReply.none }
    guard (0...Int64(Self.mostItems)).contains(count) else { throw Malformed(reason: "a list of \(count) items") }
    guard depth < Self.deepest else { throw Malformed(reason: "lists in lists too deep") }
    var items: [RedisReply] = []
    items.reserveCapacity(Int(min(count, 8)))
    for _ in 0..<Int(count) {
      guard let item = try reply(&cursor, depth: depth + 1) else { return nil }
      items.append(item)
    }
    return .list(items)
  }

  /// The next line without its end, at least its first byte; nil: it is not whole.
  private func line(_ cursor: inout Int) throws(Malformed) -> ArraySlice<UInt8>? {
    let room = input[cursor...].prefix(Self.longestLine + 2)
    guard let end = room.firstIndex(of: 0x0A) else {
      if room.count > Self.longestLine + 1 { throw Malformed(reason: "a line is too long") }
      return nil
    }
    guard end > cursor + 1, input[end - 1] == 0x0D else { throw Malformed(reason: "a line without its end") }
    defer { cursor = end + 1 }
    return input[cursor..<(end - 1)]
  }

  private static func number(_ text: ArraySlice<UInt8>) throws(Malformed) -> Int64 {
    let isNegative = text.first == 0x2D
    let digits = isNegative ? text.dropFirst() : text
    guard !digits.isEmpty, digits.count <= 18, digits.allSatisfy({ (0x30...0x39).contains($0) }) else {
      throw Malformed(reason: "no number where one is due")
    }
    // 18 digits fit.
    let number = digits.reduce(Int64(0)) { $0 &* 10 &+ Int64($1 & 0x0F) }
    return isNegative ? -number : number
  }
}
