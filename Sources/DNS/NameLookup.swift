import CAres
import Glibc
import Transport

/// One open question to the name servers: a channel of c-ares with sockets, ids and timers of its own.
///
/// c-ares makes the messages, sends them again, asks the next server, and asks over TCP if an answer was cut. It drops
/// messages that don't fit the question. A channel serves one question, so each question has a source port of its own.
/// Whoever asked may go at any time: `end` frees the channel, and nothing is called afterwards. That has to happen
/// before the last reference goes. Bound: a question ends after `patience`, whatever the servers do.
final class NameLookup: EventTarget {
  /// The first message waits 2 seconds for an answer; every round over the servers waits twice as long.
  private static let firstTimeout: Int32 = 2000
  private static let rounds: Int32 = 4
  private static let patience: UInt64 = 30_000
  /// Before servers that can't be reached are asked again.
  private static let rest = 1000
  private static let aliasQuestions = 8

  /// The question for one type of record.
  private struct Part {
    var name: DNSName
    var ttl = UInt32.max
    var aliases = 0
    /// nil: no answer yet.
    var result: DNSResult?
  }

  private let question: DNSQuestion
  private let types: [DNSMessage.RecordType]
  private let servers: String
  private let finished: (DNSResult) -> Void
  private let endsAt: UInt64
  private var channel: ares_channel?
  private var sockets: [Int32: LookupSocket] = [:]
  private var parts: [DNSMessage.RecordType: Part] = [:]
  /// c-ares is on the stack: the channel must not be freed.
  private var isInLibrary = false
  private var isUnreachable = false
  private var isEnded = false

  /// `servers`: the addresses in the order in which they are asked. `finished` is called once, from the loop and never
  /// within `begin`, unless `end` comes before.
  init(
    _ question: DNSQuestion, _ families: DNSPolicy.Families, servers: [SocketAddress], loop: EventLoop,
    finished: @escaping (DNSResult) -> Void
  ) {
    self.question = question
    self.types =
      switch (question.kind, families) {
      case (.services, _): [.service]
      case (.addresses, .both): [.ipv4, .ipv6]
      case (.addresses, .ipv4): [.ipv4]
      case (.addresses, .ipv6): [.ipv6]
      }
    self.servers = servers.map(\.description).joined(separator: ",")
    self.finished = finished
    self.endsAt = loop.now &+ Self.patience
    super.init(loop: loop)
  }

  func begin() {
    isUnreachable = false
    parts = Dictionary(types.map { ($0, Part(name: question.name)) }, uniquingKeysWith: { first, _ in first })
    channel = makeChannel()
    guard channel != nil else {
      isUnreachable = true
      return setDeadline(in: Self.rest)
    }
    inLibrary { for type in types { ask(type) } }
    // Whoever called doesn't expect an answer yet.
    if isAnswered { setDeadline(in: 0) } else { setTimer() }
  }

  /// Ends the question, if it is still open.
  func end() {
    guard !isEnded else { return }
    isEnded = true
    closeChannel()
    loop.forgetDeadline(of: self)
  }

  private var isAnswered: Bool { parts.values.allSatisfy { $0.result != nil } }

  // MARK: Events

  override func deadlinePassed() {
    guard !isEnded else { return }
    guard loop.now < endsAt else { return finish(.failure(.timedOut)) }
    if channel == nil { return begin() }
    process(reads: ARES_SOCKET_BAD, writes: ARES_SOCKET_BAD)
  }

  fileprivate func ready(_ descriptor: Int32, _ readiness: Readiness) {
    guard !isEnded, channel != nil else { return }
    // An error shows when c-ares reads or writes.
    let isBroken = !readiness.isDisjoint(with: [.error, .hangUp])
    process(
      reads: isBroken || readiness.contains(.input) ? descriptor : ARES_SOCKET_BAD,
      writes: isBroken || readiness.contains(.output) ? descriptor : ARES_SOCKET_BAD)
  }

  private func process(reads: Int32, writes: Int32) {
    inLibrary { if let channel { ares_process_fd(channel, reads, writes) } }
    guard !isEnded else { return closeChannel() }
    guard isAnswered else { return setTimer() }
    guard isUnreachable else { return finish(combined) }
    // A server that starts again can't be reached for a moment.
    closeChannel()
    setDeadline(in: Self.rest)
  }

  private func inLibrary(_ body: () -> Void) {
    isInLibrary = true
    body()
    isInLibrary = false
  }

  private func setTimer() {
    guard let channel else { return }
    var time = timeval()
    let left = Int(clamping: endsAt &- min(endsAt, loop.now))
    guard ares_timeout(channel, nil, &time) != nil else { return setDeadline(in: left) }
    setDeadline(in: min(left, Int(clamping: time.tv_sec) * 1000 + Int(clamping: time.tv_usec) / 1000 + 1))
  }

  private func finish(_ result: DNSResult) {
    end()
    finished(result)
  }

  /// Addresses of one family are enough, as with nginx.
  private var combined: DNSResult {
    var all = DNSRecords(ttl: .max)
    var failure: DNSFailure?
    for type in types {
      switch parts[type]?.result {
      case .success(let records):
        all.addresses += records.addresses
        all.services += records.services
        all.ttl = min(all.ttl, records.ttl)
      case .failure(let reason):
        // That a name has no IPv6 address says less than that the server failed.
        if failure == nil || failure == .notFound { failure = reason }
      case nil: failure = .timedOut
      }
    }
    if !all.addresses.isEmpty || !all.services.isEmpty { return .success(all) }
    return .failure(failure ?? .notFound)
  }

  // MARK: The library

  private func makeChannel() -> ares_channel? {
    guard NameLookup.isReady else { return nil }
    var options = ares_options()
    // Names are whole, the system's aliases and search list don't count, and the server's own code does.
    options.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_NOCHECKRESP
    options.timeout = Self.firstTimeout
    options.tries = Self.rounds
    options.ndots = 1
    options.sock_state_cb = socketChanged
    options.sock_state_cb_data = Unmanaged.passUnretained(self).toOpaque()
    // With all of these set, c-ares reads no file of the system. `ares_set_servers_ports_csv` replaces the server.
    let mask =
      ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS | ARES_OPT_SOCK_STATE_CB
      | ARES_OPT_SERVERS | ARES_OPT_DOMAINS | ARES_OPT_LOOKUPS | ARES_OPT_SORTLIST | ARES_OPT_NOROTATE
    var channel: ares_channel?
    var placeholder = in_addr(s_addr: UInt32(0x7F00_0001).bigEndian)
    var lookups: [CChar] = [CChar(UInt8(ascii: "b")), 0]
    let status = withUnsafeMutablePointer(to: &placeholder) { server in
      lookups.withUnsafeMutableBufferPointer { lookups in
        options.servers = server
        options.nservers = 1
        options.lookups = lookups.baseAddress
        return ares_init_options(&channel, &options, mask)
      }
    }
    guard status == CARES_SUCCESS, let channel else { return nil }
    guard ares_set_servers_ports_csv(channel, servers) == CARES_SUCCESS else {
      ares_destroy(channel)
      return nil
    }
    return channel
  }

  /// c-ares's own start, once in the process.
  private static let isReady = ares_library_init(ARES_LIB_INIT_ALL) == CARES_SUCCESS

  private func closeChannel() {
    guard !isInLibrary, let channel else { return }
    self.channel = nil
    // It calls back for each open question and socket.
    ares_destroy(channel)
    for (descriptor, socket) in sockets { socket.leave(descriptor) }
    sockets.removeAll()
  }

  private func ask(_ type: DNSMessage.RecordType) {
    guard let channel, let part = parts[type] else { return }
    let answered: ares_callback =
      switch type {
      case .ipv4: { NameLookup.from($0)?.take(.ipv4, status: $1, $3, $4) }
      case .ipv6: { NameLookup.from($0)?.take(.ipv6, status: $1, $3, $4) }
      case .service: { NameLookup.from($0)?.take(.service, status: $1, $3, $4) }
      }
    ares_query(
      channel, part.name.text, 1, Int32(type.rawValue), answered, Unmanaged.passUnretained(self).toOpaque())
  }

  /// The object behind a pointer that c-ares gives back: the channel that has it is freed before the object is.
  fileprivate static func from(_ context: UnsafeMutableRawPointer?) -> NameLookup? {
    context.map { Unmanaged<NameLookup>.fromOpaque($0).takeUnretainedValue() }
  }

  /// `bytes`: a server's message; nil: c-ares has none.
  private func take(
    _ type: DNSMessage.RecordType, status: Int32, _ bytes: UnsafeMutablePointer<UInt8>?, _ count: Int32
  ) {
    guard !isEnded, channel != nil, let part = parts[type], part.result == nil else { return }
    guard let bytes, count > 0 else {
      switch status {
      // A name that c-ares asks nobody for, such as *.onion (RFC 7686).
      case CARES_ENOTFOUND: parts[type]?.result = .failure(.notFound)
      case CARES_EBADNAME, CARES_EFORMERR, CARES_EBADQUERY: parts[type]?.result = .failure(.invalidName)
      default:
        isUnreachable = true
        parts[type]?.result = .failure(.timedOut)
      }
      return
    }
    let message = Array(UnsafeBufferPointer(start: bytes, count: Int(count)))
    switch DNSMessage.answer(in: message, about: part.name, type) {
    case .records(var records):
      records.ttl = min(records.ttl, part.ttl)
      parts[type]?.result = .success(records)
    case .failure(let reason): parts[type]?.result = .failure(reason)
    case .alias(let name, let ttl):
      guard part.aliases < Self.aliasQuestions else {
        parts[type]?.result = .failure(.malformed)
        return
      }
      parts[type] = Part(name: name, ttl: min(ttl, part.ttl), aliases: part.aliases + 1)
      ask(type)
    }
  }

  fileprivate func watch(_ descriptor: Int32, reads: Bool, writes: Bool) {
    guard reads || writes else {
      sockets.removeValue(forKey: descriptor)?.leave(descriptor)
      return
    }
    if let socket = sockets[descriptor] {
      return loop.change(socket, descriptor: descriptor, interest: .ofLibrary(writes: writes))
    }
    let socket = LookupSocket(self, descriptor)
    // Without it, the question ends by its deadline.
    guard (try? loop.add(socket, descriptor: descriptor, interest: .ofLibrary(writes: writes))) != nil else { return }
    sockets[descriptor] = socket
  }
}

private let socketChanged: ares_sock_state_cb = { context, descriptor, reads, writes in
  NameLookup.from(context)?.watch(descriptor, reads: reads != 0, writes: writes != 0)
}

/// A socket of c-ares in the event loop. The loop can call it once more after its lookup has ended.
private final class LookupSocket: EventTarget {
  private weak var lookup: NameLookup?
  private let descriptor: Int32

  init(_ lookup: NameLookup, _ descriptor: Int32) {
    self.lookup = lookup
    self.descriptor = descriptor
    super.init(loop: lookup.loop)
  }

  override func ready(_ readiness: Readiness) { lookup?.ready(descriptor, readiness) }

  func leave(_ descriptor: Int32) {
    lookup = nil
    loop.remove(self, descriptor: descriptor)
  }
}
