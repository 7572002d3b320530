import TestSupport

/// What h2spec asks of a server about frames, streams and the connection, by the sections of RFC 9113.
extension FrameCase {
  private static let block = HPACK.block(HPACK.request("GET", "/held"))
  private static let head = HTTP2Frame.headers(1, block)
  /// The first part of a header block.
  private static let part = HTTP2Frame(.headers, flags: 1, stream: 1, Array(block.prefix(7)))
  private static let rest = Array(block.dropFirst(7))
  private static let dummy = HPACK.literal("x-dummy", String(repeating: "d", count: 400))

  private static func raw(
    _ type: HTTP2Frame.Kind, _ stream: UInt32 = 0, flags: UInt8 = 0, count: Int
  ) -> HTTP2Frame {
    HTTP2Frame(type, flags: flags, stream: stream, [UInt8](repeating: 0, count: count))
  }

  static let format: [FrameCase] = [
    .init("4.1", "a frame of an unknown type", .ignored, [.init(type: 0x16, payload: [1, 2, 3, 4])]),
    .init("4.1", "a PING with unknown flags", .ignored, [.ping(7, flags: 0x16)]),
    .init("4.1", "a reserved bit", .ignored, [.init(.ping, stream: 1 << 31, [UInt8](repeating: 0, count: 8))]),
    .init("4.2", "DATA of 16384 bytes", .served(), [.post(1), raw(.data, 1, flags: 1, count: 16_384)]),
    .init("4.2", "DATA above the limit", .streamError([.frameSizeError]), [.post(1), raw(.data, 1, count: 16_385)]),
    .init(
      "4.2", "HEADERS above the limit", .connectionError([.frameSizeError]),
      [.headers(1, block + [UInt8](repeating: 0, count: 16_385))]),
    .init(
      "4.3", "a block that can't be decoded", .connectionError([.compressionError]),
      [.headers(1, [0x00, 0x01, 0x80, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])]),
    .init("4.3", "PRIORITY within a block", .connectionError([.protocolError]), [part, .priority(1)]),
    .init("4.3", "HEADERS of another stream in a block", .connectionError([.protocolError]), [part, .get(3)]),
    .init(
      "5.5", "an unknown frame within a block", .connectionError([.protocolError]),
      [part, .init(type: 0x16, stream: 1), .continuation(1, rest)]),
    .init("5.5", "an unknown frame on a stream", .served(), [.post(1), .init(type: 0x16, stream: 1), .data(1)]),
  ]

  static let streams: [FrameCase] = [
    .init("5.1", "idle: DATA", .connectionError([.protocolError]), [.data(1, "x")]),
    .init("5.1", "idle: RST_STREAM", .connectionError([.protocolError]), [.reset(1)]),
    .init("5.1", "idle: WINDOW_UPDATE", .connectionError([.protocolError]), [.windowUpdate(1, 100)]),
    .init("5.1", "idle: CONTINUATION", .connectionError([.protocolError]), [.continuation(1, block)]),
    .init("5.1", "idle: PRIORITY", .ignored, [.priority(1)]),
    .init("5.1", "half closed: DATA", .streamError([.streamClosed]), [head, .data(1, "x")]),
    .init("5.1", "half closed: HEADERS", .streamError([.streamClosed]), [head, head]),
    .init(
      "5.1", "half closed: CONTINUATION", .connectionError([.streamClosed, .protocolError]),
      [head, .continuation(1, block)]),
    .init("5.1", "half closed: WINDOW_UPDATE", .ignored, [head, .windowUpdate(1, 100)]),
    .init("5.1", "half closed: PRIORITY", .ignored, [head, .priority(1)]),
    .init("5.1", "closed by RST_STREAM: DATA", .tolerated([.streamClosed]), [.post(1, "/held"), .reset(1), .data(1)]),
    .init("5.1", "closed by RST_STREAM: HEADERS", .tolerated([.streamClosed]), [head, .reset(1), head]),
    .init(
      "5.1", "closed by RST_STREAM: CONTINUATION", .connectionError([.streamClosed, .protocolError]),
      [head, .reset(1), .continuation(1, block)]),
    .init("5.1", "closed by RST_STREAM: PRIORITY", .ignored, [head, .reset(1), .priority(1)]),
    .init("5.1", "closed: DATA", .tolerated([.streamClosed]), before: [.get(1)], [.data(1, "x")]),
    .init("5.1", "closed: HEADERS", .tolerated([.streamClosed, .protocolError]), before: [.get(1)], [head]),
    .init("5.1", "closed: WINDOW_UPDATE", .ignored, before: [.get(1)], [.windowUpdate(1, 100)]),
    .init("5.1", "closed: RST_STREAM", .tolerated([.streamClosed]), before: [.get(1)], [.reset(1)]),
    .init(
      "5.1", "closed: CONTINUATION", .connectionError([.streamClosed, .protocolError]), before: [.get(1)],
      [.continuation(1, block)]),
    .init("5.1.1", "an even stream", .connectionError([.protocolError]), [.get(2)]),
    .init(
      "5.1.1", "a stream below one that was used", .connectionError([.protocolError]), before: [.get(1)],
      [.get(5, "/held"), .get(3, "/held")]),
    .init(
      "5.1.2", "more streams than were allowed", .streamError([.protocolError, .refusedStream]),
      (0..<129).map { .get(2 * $0 + 1, "/held") }),
    // Priorities are ignored (RFC 9113 §5.3.2), even one that RFC 7540 forbade.
    .init("5.3.1", "PRIORITY on itself", .tolerated([.protocolError]), [.priority(1, on: 1)]),
    .init(
      "5.3.1", "HEADERS with a priority on itself", .tolerated([.protocolError]),
      [.headers(1, HTTP2Frame.word(1) + [15] + block, flags: 0x25)]),
    .init(
      "5.3.1", "HEADERS with a priority", .served(),
      [.headers(1, HTTP2Frame.word(3 | 1 << 31) + [255] + HPACK.block(HPACK.request("GET", "/")), flags: 0x25)]),
  ]

  static let frames: [FrameCase] = [
    .init("6.1", "DATA", .served("xy"), [.post(1), .data(1, "x", ends: false), .data(1, "y")]),
    .init(
      "6.1", "DATA with padding", .served("xy"),
      [.post(1), .init(.data, flags: 9, stream: 1, [3, 0x78, 0x79, 0, 0, 0])]),
    .init("6.1", "DATA of stream 0", .connectionError([.protocolError]), [.data(0, "x")]),
    .init(
      "6.1", "DATA with too much padding", .connectionError([.protocolError]),
      [.post(1), .init(.data, flags: 9, stream: 1, [6, 0x78, 0, 0, 0, 0])]),
    .init("6.2", "HEADERS of stream 0", .connectionError([.protocolError]), [.headers(0, block)]),
    .init(
      "6.2", "HEADERS with padding", .served(),
      [.headers(1, [3] + HPACK.block(HPACK.request("GET", "/")) + [0, 0, 0], flags: 0xd)]),
    .init(
      "6.2", "HEADERS with too much padding", .connectionError([.protocolError]),
      [.headers(1, [UInt8(block.count + 1)] + block, flags: 0xd)]),
    .init("6.3", "PRIORITY of stream 0", .connectionError([.protocolError]), [.priority(0)]),
    .init("6.3", "PRIORITY of another length", .streamError([.frameSizeError]), [head, raw(.priority, 1, count: 4)]),
    .init("6.4", "RST_STREAM of stream 0", .connectionError([.protocolError]), [.reset(0)]),
    .init(
      "6.4", "RST_STREAM of another length", .connectionError([.frameSizeError]), [head, raw(.reset, 1, count: 3)]),
    .init("6.4", "RST_STREAM with an unknown code", .ignored, [head, .reset(1, 0xff)]),
    .init("6.5", "SETTINGS of a stream", .connectionError([.protocolError]), [raw(.settings, 1, count: 6)]),
    .init(
      "6.5", "an acknowledgement with payload", .connectionError([.frameSizeError]),
      [raw(.settings, flags: 1, count: 6)]),
    .init("6.5", "SETTINGS of another length", .connectionError([.frameSizeError]), [raw(.settings, count: 3)]),
    .init("6.5.2", "ENABLE_PUSH of 2", .connectionError([.protocolError]), [.settings([2: 2])]),
    .init("6.5.2", "a window above the limit", .connectionError([.flowControlError]), [.settings([4: 1 << 31])]),
    .init("6.5.2", "a frame size below the limit", .connectionError([.protocolError]), [.settings([5: 16_383])]),
    .init("6.5.2", "a frame size above the limit", .connectionError([.protocolError]), [.settings([5: 1 << 24])]),
    .init("6.5.2", "an unknown setting", .ignored, [.settings([0xff: 1])]),
    .init(
      "6.6", "PUSH_PROMISE of a client", .connectionError([.protocolError]),
      [.init(.pushPromise, flags: 4, stream: 1, HTTP2Frame.word(3) + block)]),
    .init("6.7", "a PING's answer that nobody asked for", .ignored, [.ping(1, flags: 1)]),
    .init("6.7", "PING of a stream", .connectionError([.protocolError]), [raw(.ping, 1, count: 8)]),
    .init("6.7", "PING of another length", .connectionError([.frameSizeError]), [raw(.ping, count: 6)]),
    .init("6.8", "GOAWAY of a stream", .connectionError([.protocolError]), [raw(.goAway, 1, count: 8)]),
    .init("6.9", "an increment of 0", .connectionError([.protocolError]), [.windowUpdate(0, 0)]),
    .init("6.9", "an increment of 0 on a stream", .streamError([.protocolError]), [head, .windowUpdate(1, 0)]),
    .init(
      "6.9", "WINDOW_UPDATE of another length", .connectionError([.frameSizeError]), [raw(.windowUpdate, count: 3)]),
    .init(
      "6.9.1", "the connection's window beyond its limit", .connectionError([.flowControlError]),
      [.windowUpdate(0, .max >> 1), .windowUpdate(0, .max >> 1)]),
    .init(
      "6.9.1", "a stream's window beyond its limit", .streamError([.flowControlError]),
      [head, .windowUpdate(1, .max >> 1), .windowUpdate(1, .max >> 1)]),
    // RFC 9113 wants an error of the connection; libnghttp2 ends the stream alone.
    .init(
      "6.9.2", "a setting that takes a stream's window beyond its limit", .streamError([.flowControlError]),
      [head, .windowUpdate(1, .max >> 1 - 65_535), .settings([4: 65_536])]),
    .init(
      "6.10", "CONTINUATION frames", .served(),
      [
        .headers(1, HPACK.block(HPACK.request("GET", "/")), flags: 1), .continuation(1, dummy, ends: false),
        .continuation(1, [], ends: false), .continuation(1, dummy),
      ]),
    .init("6.10", "CONTINUATION of stream 0", .connectionError([.protocolError]), [part, .continuation(0, rest)]),
    .init(
      "6.10", "CONTINUATION of another stream", .connectionError([.protocolError]), [part, .continuation(3, rest)]),
    .init(
      "6.10", "DATA between HEADERS and CONTINUATION", .connectionError([.protocolError]),
      [part, .data(1, "x"), .continuation(1, rest)]),
    .init(
      "6.10", "CONTINUATION after a whole block", .connectionError([.protocolError]),
      [part, .continuation(1, rest), .continuation(1, dummy)]),
    .init(
      "6.10", "CONTINUATION after DATA", .connectionError([.protocolError]),
      [.post(1, "/held"), .data(1, "x", ends: false), .continuation(1, dummy)]),
  ]

  static let compression: [FrameCase] = {
    let start = HPACK.block(HPACK.request("GET", "/"))
    func fault(_ section: String, _ name: String, _ bytes: [UInt8]) -> FrameCase {
      .init("HPACK \(section)", name, .connectionError([.compressionError]), [.headers(1, start + bytes)])
    }
    func taken(_ section: String, _ name: String, _ bytes: [UInt8]) -> FrameCase {
      .init("HPACK \(section)", name, .served(), [.headers(1, bytes)])
    }
    func value(_ bytes: [UInt8]) -> [UInt8] {
      HPACK.literal("x-h", "").dropLast() + [0x80 | UInt8(bytes.count)] + bytes
    }
    return [
      taken("2.3.2", "a field of the dynamic table", start + HPACK.literal("x-h", "v", .indexed) + HPACK.indexed(62)),
      fault("2.3.3", "an index that no table has", HPACK.indexed(70)),
      fault("2.3.3", "a name at an index that no table has", HPACK.literal(nameAt: 70, "v", .indexed)),
      taken("4.2", "a table size at the start", HPACK.tableSize(0) + HPACK.tableSize(4096) + start),
      fault("4.2", "a table size at the end", HPACK.tableSize(1)),
      fault("5.1", "an integer that has no end", [0x7f] + [UInt8](repeating: 0xff, count: 12)),
      taken("5.2", "Huffman's code", start + HPACK.literal("x-h", "www.example.com", .neverIndexed, huffman: true)),
      fault("5.2", "padding of more than seven bits", value(HPACK.huffmanCode("aaa") + [0xff])),
      fault("5.2", "padding of zeros", value([0x18])),
      fault("5.2", "the symbol for the end of a string", value([0xff, 0xff, 0xff, 0xff])),
      fault("5.2", "a string longer than the block", HPACK.literal("x-h", "value").dropLast(2)),
      fault("6.1", "index 0", HPACK.indexed(0)),
      .init(
        "HPACK 6.3", "a table size above SETTINGS_HEADER_TABLE_SIZE", .connectionError([.compressionError]),
        [.headers(1, HPACK.tableSize(4097) + start)]),
    ]
  }()
}
