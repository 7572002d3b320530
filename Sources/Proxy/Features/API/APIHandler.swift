import Bytes
import Glibc
import HTTP
import Observability
import Transport
import Upstream

/// `api` in one worker.
final class APIContent: LiveContent {
  fileprivate let settings: APILocation
  init(_ settings: APILocation) { self.settings = settings }
  override func handler(for worker: Worker) -> ContentHandler? { APIHandler(self) }
}

private final class APIHandler: ContentHandler {
  private let content: APIContent
  // Not retained: the exchange owns its handler.
  private unowned(unsafe) var exchange: Exchange?
  /// What is left of a long answer, and whether the next piece of it waits for its turn.
  private var rest: ArraySlice<UInt8> = [], isPosted = false

  /// Pairs that are told at once, and their bytes: more of them would hold the worker up.
  private static let mostPairs = 500, mostBytes = 512 * 1024
  private static let pieceSize = 64 * 1024

  init(_ content: APIContent) { self.content = content }

  override func start(_ exchange: Exchange) {
    self.exchange = exchange
    guard let stream = exchange.stream else { return }
    do throws(APIFault) {
      try admit(exchange)
      switch exchange.head.method {
      case .get, .head: try show(path(exchange), exchange)
      case .patch, .post, .delete:
        guard content.settings.mayWrite else { throw APIFault.disabled }
        if case .collected(let kept) = exchange.body.state { return change(exchange, kept) }
        let kept = RequestBody(allowance: APIServerBody.largest, pool: exchange.worker.shared.pool)
        guard exchange.head.framing != .none, !stream.isBodyRead else { return change(exchange, kept) }
        exchange.collectBody(in: kept)
      default: throw APIFault.method
      }
    } catch {
      refuse(error, exchange)
    }
  }

  override func requestBodyDidEnd(_ trailers: Trailers?) {
    guard let exchange, case .collected(let kept) = exchange.body.state else { return }
    change(exchange, kept)
  }

  /// Refuses a browser that a page of another origin has sent, and users of this machine who may not use the API.
  private func admit(_ exchange: Exchange) throws(APIFault) {
    // All lines of each: no browser sends two, and a front that looks at one of two must not decide for us.
    let (origins, sites) = (values("Origin", exchange), values("Sec-Fetch-Site", exchange))
    // Whoever controls a name can have it lead here, and then its pages are of this origin (DNS rebinding).
    if !origins.isEmpty || sites.contains(where: { $0 != "none" }), !exchange.namesServer { throw .crossOrigin }
    guard sites.count <= 1, sites.allSatisfy({ $0 == "same-origin" || $0 == "none" }) else { throw .crossOrigin }
    if !origins.isEmpty {
      // An origin is a scheme, a host and a port (RFC 6454 §4): a page in clear is of another than one by TLS.
      var scheme = ByteBuffer()
      exchange.append(.simple(.scheme), to: &scheme)
      guard let host = values("Host", exchange).first, origins == ["\(scheme.readable.text)://\(host)"] else {
        throw .crossOrigin
      }
    }
    try admitPeer(exchange)
  }

  /// Judges by the first peer of the connection, whatever a header says of the client and whichever listener it was passed to.
  private func admitPeer(_ exchange: Exchange) throws(APIFault) {
    let session = exchange.session, isLocal = session.facts.peer.port == nil
    let isOurUser: Bool = {
      guard isLocal, let peer = AbstractSocket.peer(of: session.transport.descriptor) else { return false }
      // This process asks for somebody else.
      if content.settings.access == .writeBySocket, peer.process == getpid() { return false }
      return peer.user == 0 || peer.user == geteuid()
    }()
    switch content.settings.access {
    case .read: break
    case .writeByRules: if isLocal, !isOurUser { throw .stranger }
    case .writeBySocket: if !isOurUser { throw .stranger }
    }
  }

  /// The values of all lines of a field.
  private func values(_ name: String, _ exchange: Exchange) -> [String] {
    let bytes = exchange.head.bytes.readable, name = name.lowercased()
    return exchange.head.fields.filter { bytes[$0.name].text.lowercased() == name }.map { bytes[$0.value].text }
  }

  private func path(_ exchange: Exchange) -> APIPath {
    let path = Array(exchange.target.uri.readable)
    return APIPath(String(decoding: path.dropFirst(content.settings.prefix.count), as: UTF8.self))
  }

  private func view(_ exchange: Exchange) -> APIView {
    let live = exchange.session.live
    return APIView(
      metrics: exchange.worker.metrics, generation: live.generation, groups: live.zonedGroups, keyvals: live.keyvals,
      limits: limits(exchange), now: exchange.worker.loop.now)
  }

  private func limits(_ exchange: Exchange) -> APILimits {
    APILimits(
      zones: exchange.session.live.generation.http[LimitZones.self].all,
      verdicts: exchange.worker.shared[ZoneVerdicts.self])
  }

  private func show(_ path: APIPath, _ exchange: Exchange) throws(APIFault) {
    switch path {
    case .clients:
      ask(exchange) {
        $0.connectedClients
      } then: { [self] exchange, clients in
        answer(200, APIView.text(clients.flatMap { $0 }), exchange)
      }
    case .keyval(let name):
      let zone = try APIView.keyval(name, of: exchange.session.live.keyvals).zone
      guard let asked = argument("key", exchange) else {
        if Self.isShort(zone) { return answer(200, try view(exchange).text(path), exchange) }
        let now = exchange.worker.loop.now
        return list(exchange) { APIView.text(pairs: zone.all(now: now)) }
      }
      guard let value = zone.pair(asked, now: exchange.worker.loop.now) else { throw .key }
      answer(200, APIView.text(pairs: [(asked, value)]), exchange)
    case .keyvals:
      let zones = exchange.session.live.keyvals.map { (name: $0.settings.name, zone: $0.zone) }
      if zones.allSatisfy({ Self.isShort($0.zone) }) {
        return answer(200, try view(exchange).text(path), exchange)
      }
      let now = exchange.worker.loop.now
      list(exchange) { APIView.text(zones, now: now) }
    case .denials: answer(200, APIView.text(exchange.worker.shared.denials.all()), exchange)
    default: answer(200, try view(exchange).text(path), exchange)
    }
  }

  private static func isShort(_ zone: KeyvalZone) -> Bool { zone.count <= mostPairs && zone.bytes <= mostBytes }

  /// Answers with a text that takes long to make: on a thread of the pool, and then in pieces.
  private func list(_ exchange: Exchange, _ text: @escaping @Sendable () -> String) {
    PendingWork.run(.stateFiles, for: exchange, at: "pairs", { Array(text().utf8) }) { [self] exchange, bytes in
      rest = bytes[...]
      addOwnFields(exchange)
      let first = takePiece()
      first.withUnsafeBytes {
        exchange.answer(status: 200, type: "application/json", body: $0, of: bytes.count)
      }
      goOn()
    }
  }

  private func takePiece() -> ArraySlice<UInt8> {
    let piece = rest.prefix(Self.pieceSize)
    rest = rest.dropFirst(piece.count)
    return piece
  }

  /// Sends the next piece after the events of others.
  private func goOn() {
    guard let exchange, !rest.isEmpty, !isPosted else { return }
    isPosted = true
    let box = LoopBox(self)
    exchange.worker.loop.post {
      box.value.isPosted = false
      box.value.sendPiece()
    }
  }

  private func sendPiece() {
    guard let exchange, !rest.isEmpty else { return }
    guard exchange.waitingBytes < Self.pieceSize else {
      exchange.stream?.watchSending(exchange.location.limits.sendTimeout)
      return
    }
    takePiece().withUnsafeBytes { exchange.sendBody($0) }
    if rest.isEmpty { exchange.complete() } else { goOn() }
  }

  override func clientDidDrain() { goOn() }

  override func cancel() { exchange = nil }

  override func recycle() {
    exchange = nil
    rest = []
  }

  /// Asks all workers, and goes on unless the exchange has ended meanwhile.
  private func ask<Value: Sendable>(
    _ exchange: Exchange, _ question: @escaping @Sendable (Worker) -> Value,
    then: @escaping (Exchange, [Value]) -> Void
  ) {
    let serial = exchange.serial
    exchange.worker.shared.workers.ask(from: exchange.worker.loop, question) { values in
      if serial == exchange.serial { then(exchange, values) }
    }
  }

  private func change(_ exchange: Exchange, _ kept: RequestBody) {
    do throws(APIFault) {
      guard !kept.isInFile else { throw APIFault(status: 413, code: "RequestTooLarge", text: "the body is too large") }
      switch (exchange.head.method, path(exchange)) {
      case (.patch, .server(let name, let id, let isOfStream)):
        let body = try APIServerBody(Array(kept.memory.readable))
        try patch(id, of: name, isOfStream: isOfStream, body, exchange)
      case (.post, .servers(let name, let isOfStream)):
        let group = try group(name, isOfStream, exchange)
        try add(try APINewServerBody(Array(kept.memory.readable), isOfStream: isOfStream), to: group, exchange)
      case (.delete, .server(let name, let id, let isOfStream)):
        try remove(id, of: group(name, isOfStream, exchange), exchange)
      case (.post, .keyval(let name)), (.patch, .keyval(let name)), (.delete, .keyval(let name)):
        try change(name, kept, exchange)
      case (.delete, .limit(let kind, let name)):
        try limits(exchange).counts(kind, name).reset()
        answer(204, "", exchange)
      case (.delete, .client(let name)): cut(name, exchange)
      case (.post, .denials): try deny(try APIDenialBody(Array(kept.memory.readable)), exchange)
      case (.delete, .denial(let fingerprint)):
        guard exchange.worker.shared.denials.allow(fingerprint) else {
          throw APIFault(status: 404, code: "DenialNotFound", text: "this fingerprint is not denied")
        }
        exchange.log(.notice, "api: the certificate \(Hex.encode(fingerprint)) is denied no more")
        keepDenials(exchange) { [self] in answer(200, APIView.text($0.worker.shared.denials.all()), $0) }
      case (_, .unknown): throw APIFault.notFound
      case (_, .otherVersion): throw APIFault.version
      default: throw APIFault.method
      }
    } catch {
      refuse(error, exchange)
    }
  }

  /// Changes a `keyval_zone`.
  private func change(_ name: String, _ kept: RequestBody, _ exchange: Exchange) throws(APIFault) {
    let keyvals = exchange.session.live.keyvals, now = exchange.worker.loop.now
    let (settings, zone) = try APIView.keyval(name, of: keyvals)
    if let store = settings.store { return try change(settings, zone, in: store, kept, exchange) }
    if exchange.head.method == .delete {
      zone.removeAll().giveUp(exchange.worker.shared.pool)
      exchange.log(.notice, "api: the zone \"\(name)\" of keyval is emptied")
      return keep(zone, settings.state, exchange) { [self] in answer(204, "", $0) }
    }
    let body = try APIPairBody(Array(kept.memory.readable)), isNew = exchange.head.method == .post
    let change: KeyvalZone.Change
    if let value = body.value {
      change = zone.set(body.key, to: value, isNew: isNew, timeout: body.expire ?? settings.timeout, now: now)
    } else {
      guard !isNew else { throw APIFault(status: 400, code: "KeyvalFormatError", text: "the value must be a string") }
      change = zone.remove(body.key, now: now)
    }
    if let fault = APIFault(change) { throw fault }
    exchange.log(.notice, "api: the key \"\(LogEscape.text(body.key))\" of keyval zone \"\(name)\" is changed")
    keep(zone, settings.state, exchange) { [self] in answer(isNew ? 201 : 204, "", $0) }
  }

  /// Changes a pair in a store, for all machines: the others have it within a second.
  private func change(
    _ settings: KeyvalZoneSettings, _ zone: KeyvalZone, in use: StoreUse, _ kept: RequestBody, _ exchange: Exchange
  ) throws(APIFault) {
    let now = exchange.worker.loop.now
    var change = SharedKeyvalChange(kind: .clear)
    if exchange.head.method != .delete {
      let body = try APIPairBody(Array(kept.memory.readable)), isNew = exchange.head.method == .post
      guard body.value != nil || !isNew else {
        throw APIFault(status: 400, code: "KeyvalFormatError", text: "the value must be a string")
      }
      if let value = body.value, let fault = zone.obstacle(body.key, value, now: now).flatMap({ APIFault($0) }) {
        throw fault
      }
      change = SharedKeyvalChange(
        kind: body.value == nil ? .remove : isNew ? .add : .set, key: body.key, value: body.value ?? [],
        life: body.expire ?? settings.timeout)
    }
    guard let store = exchange.session.live[LiveStores.self]?[use.store], store.fault == nil else { throw .store }
    store.ask(
      .keyvalChange, keys: [SharedKeyval.key(of: settings)], change.words,
      then: StoreWait.answer(exchange, change.outcome) { [self, change] exchange, answer in
        guard case .success(let outcome) = answer else { return refuse(.store, exchange) }
        if let fault = APIFault(outcome) { return refuse(fault, exchange) }
        zone.apply(change, now: exchange.worker.loop.now)?.giveUp(exchange.worker.shared.pool)
        let key = change.kind == .clear ? "all keys" : "the key \"\(LogEscape.text(change.key))\""
        exchange.log(
          .notice, "api: \(key) of keyval zone \"\(settings.name)\" is changed in the store \"\(use.store)\"")
        self.answer(change.kind == .add ? 201 : 204, "", exchange)
      })
    StoreWait.leave(exchange)
  }

  /// Writes the pairs to the zone's `state`, so that an answer means that they outlive the process.
  private func keep(
    _ zone: KeyvalZone, _ state: KeyvalState?, _ exchange: Exchange, then: @escaping (Exchange) -> Void
  ) {
    guard let state else { return then(exchange) }
    let change = zone.changes
    // If this fails, it runs again later.
    kept(at: state.path, exchange, then: then) { () throws(KeyvalState.Fault) in
      try zone.keep(change) { () throws(KeyvalState.Fault) in try state.write(zone, now: MonotonicClock.milliseconds) }
    }
  }

  /// Writes a file on a thread of the pool. If that fails, the change itself stays, and the file is written again until it
  /// can be. `write`: writes what counts when it runs.
  private func kept<Fault: Error>(
    at path: String, _ exchange: Exchange, then: @escaping (Exchange) -> Void,
    write: @escaping @Sendable () throws(Fault) -> Void
  ) {
    let unwritten = exchange.worker.shared.unwritten
    let attempt: UnwrittenStates.Write = {
      do throws(Fault) { try write() } catch { return "\(error)" }
      return nil
    }
    // The change is made already, so its client must not take the write with it.
    let isTaken = PendingWork.run(.stateFiles, for: exchange, at: path, outlives: true) { () -> String? in
      let fault = attempt()
      unwritten.note(path, fault, attempt)
      return fault
    } _: { [self] exchange, fault in
      guard let fault else { return then(exchange) }
      exchange.log(
        .error, "api: \"\(path)\" could not be written, so a restart forgets the change until it can be: \(fault)")
      refuse(
        APIFault(status: 500, code: "StateNotWritten", text: "the change is made, but a restart forgets it"), exchange)
    }
    if !isTaken { unwritten.note(path, "too many files wait to be written", attempt) }
  }

  /// The value of an argument, decoded; nil without it.
  private func argument(_ name: String, _ exchange: Exchange) -> [UInt8]? {
    for part in exchange.arguments.split(separator: 0x26) where part.starts(with: Array("\(name)=".utf8)) {
      return PercentEncoding.decode(part.dropFirst(name.utf8.count + 1))
    }
    return nil
  }

  private func patch(
    _ id: UInt64, of name: String, isOfStream: Bool, _ body: APIServerBody, _ exchange: Exchange
  ) throws(APIFault) {
    let group = try group(name, isOfStream, exchange)
    if isOfStream { try APIServerBody.refuseDrain(body.patch) }
    let member: GroupMember
    do throws(UpstreamGroup.PatchFault) { member = try group.patch(id, body.patch) } catch {
      switch error {
      case .noZone: throw .upstream
      case .unknown: throw .server
      case .weightOfRing: throw .body("the weight can't be changed with \"hash … consistent\"")
      }
    }
    exchange.log(
      .notice,
      "api: server \(member.address) of upstream \"\(name)\" is changed: weight \(member.weight), max_conns \(member.maxConnections)\(member.isDown ? ", down" : "")\(member.isDraining ? ", drain" : "")"
    )
    keep(group, exchange) { [self] in answer(200, APIView.text(member), $0) }
  }

  private func group(_ name: String, _ isOfStream: Bool, _ exchange: Exchange) throws(APIFault) -> UpstreamGroup {
    let groups = exchange.session.live.zonedGroups
    guard let group = APIView.group(name, isOfStream: isOfStream, of: groups) else { throw .upstream }
    return group
  }

  private func add(_ body: APINewServerBody, to group: UpstreamGroup, _ exchange: Exchange) throws(APIFault) {
    let member: GroupMember
    do throws(ServerListFault) { member = try group.add(body.settings, at: body.address) } catch {
      throw APIFault(error)
    }
    exchange.log(.notice, "api: server \(member.address) is added to upstream \"\(group.settings.name)\"")
    keep(group, exchange) { [self] in answer(201, APIView.text(member), $0) }
  }

  private func remove(_ id: UInt64, of group: UpstreamGroup, _ exchange: Exchange) throws(APIFault) {
    let member: GroupMember
    do throws(ServerListFault) { member = try group.remove(id) } catch { throw APIFault(error) }
    exchange.log(.notice, "api: server \(member.address) is removed from upstream \"\(group.settings.name)\"")
    let left = group.members
    keep(group, exchange) { [self] in answer(200, APIView.text(left), $0) }
  }

  /// Writes the servers to the group's `state`.
  private func keep(_ group: UpstreamGroup, _ exchange: Exchange, then: @escaping (Exchange) -> Void) {
    guard let (path, lines) = group.stateLines else { return then(exchange) }
    let isOfStream = group.settings.isOfStream
    kept(at: path, exchange, then: then) { () throws(ServerState.Fault) in
      try ServerState.write(lines(), to: path, isOfStream: isOfStream)
    }
  }

  private func cut(_ name: ClientName, _ exchange: Exchange) {
    ask(exchange) {
      $0.cut(clientsNamed: name)
    } then: { [self] exchange, counts in
      let count = counts.reduce(0, +)
      exchange.log(.notice, "api: \(count) connections of the client \(name.words) are cut")
      answer(200, APIView.text(cut: count), exchange)
    }
  }

  private func deny(_ body: APIDenialBody, _ exchange: Exchange) throws(APIFault) {
    guard exchange.worker.shared.denials.deny(body.fingerprint, seconds: body.seconds) else {
      throw .body("\(ClientDenials.limit) certificates are denied already")
    }
    let name = ClientName.fingerprint(body.fingerprint)
    ask(exchange) {
      $0.cut(clientsNamed: name)
    } then: { [self] exchange, counts in
      let count = counts.reduce(0, +)
      exchange.log(
        .notice, "api: the certificate \(name.words) is denied for \(body.seconds) s, \(count) connections are cut")
      keepDenials(exchange) { [self] in answer(201, APIView.text(cut: count), $0) }
    }
  }

  /// Writes the denials to the state directory, so that an answer means that they outlive the process.
  private func keepDenials(_ exchange: Exchange, then: @escaping (Exchange) -> Void) {
    let denials = exchange.worker.shared.denials
    guard let state = denials.state else { return then(exchange) }
    kept(at: state.path, exchange, then: then) { () throws(DenialState.Fault) in try denials.write() }
  }

  private func refuse(_ fault: APIFault, _ exchange: Exchange) {
    var json = JSONText()
    var id = ByteBuffer()
    RequestID.of(exchange).append(to: &id)
    json.object { json in
      json.object("error") {
        $0.member("status", fault.status)
        $0.member("text", fault.text)
        $0.member("code", fault.code)
      }
      json.member("request_id", id.readable.text)
      json.member("href", "https://nginx.org/en/docs/http/ngx_http_api_module.html")
    }
    if fault.status >= 400, exchange.head.method != .get { exchange.log(.info, "api refused: \(fault.text)") }
    answer(fault.status, json.text + "\n", exchange)
  }

  private func addOwnFields(_ exchange: Exchange) {
    exchange.setOwnFields(
      FieldBlock([
        (Array("Cache-Control".utf8), Array("no-store".utf8)),
        (Array("X-Content-Type-Options".utf8), Array("nosniff".utf8)),
      ]))
  }

  private func answer(_ status: Int, _ text: String, _ exchange: Exchange) {
    addOwnFields(exchange)
    Array(text.utf8).withUnsafeBytes { exchange.answer(status: status, type: "application/json", body: $0) }
  }
}

extension Exchange {
  /// Whether Host is a name that the configuration gives this server, not one that only led to its default.
  fileprivate var namesServer: Bool {
    var text = ByteBuffer()
    append(.simple(.host), to: &text)
    let host = text.readable.text.lowercased()
    return server.settings.names.contains { name in
      switch name {
      case .exact(let exact): !exact.isEmpty && exact == host
      case .leadingWildcard(let suffix, let matchesBare):
        host.hasSuffix(suffix) || matchesBare && host == String(suffix.dropFirst())
      case .trailingWildcard(let prefix): host.hasPrefix(prefix)
      case .regex: false
      }
    }
  }
}
