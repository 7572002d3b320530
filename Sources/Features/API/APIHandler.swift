import Bytes
import Forward
import Glibc
import HTTP
import Observability
import Traffic
import Transport
import Upstream

/// `api` in one worker.
final class APIContent: LiveContent {
  fileprivate let settings: APILocation
  init(_ settings: APILocation) { self.settings = settings }
  override func handler(for worker: Worker) -> ContentHandler? { APIHandler(self) }
}

private final class APIHandler: ContentHandler, APIResponse {
  private let content: APIContent
  // Not retained: the exchange owns its handler.
  private unowned(unsafe) var exchange: Exchange?
  /// What is left of a long answer, and whether the next piece of it waits for its turn.
  private var rest: ArraySlice<UInt8> = [], isPosted = false

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
        let kept = RequestBody(allowance: APIJSON.largest, pool: exchange.worker.shared.pool)
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
    return APIPath(
      String(decoding: path.dropFirst(content.settings.prefix.count), as: UTF8.self),
      objects: exchange.worker.shared.apiFeatures.objects)
  }

  private func view(_ exchange: Exchange) -> APIView {
    let live = exchange.session.live
    return APIView(
      metrics: exchange.worker.metrics, generation: live.generation, groups: live.zonedGroups,
      shared: exchange.worker.shared, address: exchange.session.facts.local?.description ?? "")
  }

  private func show(_ path: APIPath, _ exchange: Exchange) throws(APIFault) {
    switch path {
    case .clients:
      ask(exchange) {
        $0.connectedClients
      } then: { [self] exchange, clients in
        answer(200, APIView.text(clients.flatMap { $0 }), exchange)
      }
    case .serverZones(isOfStream: false), .serverZone(_, isOfStream: false):
      ask(exchange) {
        $0.requestsInProgress
      } then: { [self] exchange, counts in
        var view = view(exchange)
        view.processing = counts.reduce(into: [:]) { all, own in all.merge(own) { $0 + $1 } }
        do throws(APIFault) { answer(200, try view.text(path), exchange) } catch { refuse(error, exchange) }
      }
    case .objects(let kind, let isOfStream): try objects(kind, isOfStream, exchange).show(nil, exchange, self)
    case .object(let kind, let name, let isOfStream):
      try objects(kind, isOfStream, exchange).show(name, exchange, self)
    case .denials: answer(200, APIView.text(exchange.worker.shared.denials.all()), exchange)
    // A line of the error log says more of clients than counts do, so it is for those who may change something.
    case .errors where !content.settings.mayWrite: throw .disabled
    default: answer(200, try view(exchange).text(path), exchange)
    }
  }

  func list(_ exchange: Exchange, _ text: @escaping @Sendable () -> String) {
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
      case (_, .object(let kind, let name, let isOfStream)):
        try objects(kind, isOfStream, exchange).change(name, Array(kept.memory.readable), exchange, self)
      case (.delete, .client(let name)): cut(name, exchange)
      case (.post, .denials): try deny(try APIDenialBody(Array(kept.memory.readable)), exchange)
      case (.delete, .denial(let fingerprint)):
        guard exchange.worker.shared.denials.allow(fingerprint) else {
          throw APIFault(status: 404, code: "DenialNotFound", text: "this fingerprint is not denied")
        }
        exchange.tellOfChange("the certificate \(Hex.encode(fingerprint)) is denied no more")
        keepDenials(exchange) { [self] in answer(200, APIView.text($0.worker.shared.denials.all()), $0) }
      case (.post, .logLevel):
        let body = try APILogLevelBody(Array(kept.memory.readable))
        exchange.beginLogLevel(LogLevelOverride(body.level, seconds: body.seconds, asker: exchange.asker))
        answer(201, try view(exchange).text(.logLevel), exchange)
      case (.delete, .logLevel):
        guard exchange.endLogLevel() else {
          throw APIFault(status: 404, code: "LogLevelNotFound", text: "error logs take what error_log says")
        }
        answer(200, try view(exchange).text(.logLevel), exchange)
      case (_, .unknown): throw APIFault.notFound
      case (_, .otherVersion): throw APIFault.version
      default: throw APIFault.method
      }
    } catch {
      refuse(error, exchange)
    }
  }

  func keep(
    at path: String, _ exchange: Exchange, then: @escaping (Exchange) -> Void, write: @escaping UnwrittenStates.Write
  ) {
    let unwritten = exchange.worker.shared[UnwrittenStates.self]
    // The change is made already, so its client must not take the write with it.
    let isTaken = PendingWork.run(.stateFiles, for: exchange, at: path, outlives: true) { () -> String? in
      let fault = write()
      unwritten.note(path, fault, write)
      return fault
    } _: { [self] exchange, fault in
      guard let fault else { return then(exchange) }
      exchange.log(
        .error, "api: \"\(path)\" could not be written, so a restart forgets the change until it can be: \(fault)")
      refuse(
        APIFault(status: 500, code: "StateNotWritten", text: "the change is made, but a restart forgets it"), exchange)
    }
    if !isTaken { unwritten.note(path, "too many files wait to be written", write) }
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
    exchange.tellOfChange(
      "server \(member.address) of upstream \"\(name)\" is changed: weight \(member.weight), max_conns \(member.maxConnections)\(member.isDown ? ", down" : "")\(member.isDraining ? ", drain" : "")"
    )
    keep(group, exchange) { [self] in answer(200, APIView.text(member), $0) }
  }

  private func objects(
    _ name: String, _ isOfStream: Bool, _ exchange: Exchange
  ) throws(APIFault) -> any APIObjects {
    let kind: TrafficKind = isOfStream ? .stream : .http
    let all = exchange.worker.shared.apiFeatures.objects
    guard let objects = all.first(where: { $0.name == name && $0.kind == kind }) else { throw .notFound }
    return objects
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
    exchange.tellOfChange("server \(member.address) is added to upstream \"\(group.settings.name)\"")
    keep(group, exchange) { [self] in answer(201, APIView.text(member), $0) }
  }

  private func remove(_ id: UInt64, of group: UpstreamGroup, _ exchange: Exchange) throws(APIFault) {
    let member: GroupMember
    do throws(ServerListFault) { member = try group.remove(id) } catch { throw APIFault(error) }
    exchange.tellOfChange("server \(member.address) is removed from upstream \"\(group.settings.name)\"")
    let left = group.members
    keep(group, exchange) { [self] in answer(200, APIView.text(left), $0) }
  }

  /// Writes the servers to the group's `state`.
  private func keep(_ group: UpstreamGroup, _ exchange: Exchange, then: @escaping (Exchange) -> Void) {
    guard let (path, lines) = group.stateLines else { return then(exchange) }
    let isOfStream = group.settings.isOfStream
    keep(at: path, exchange, then: then) { () throws(ServerState.Fault) in
      try ServerState.write(lines(), to: path, isOfStream: isOfStream)
    }
  }

  private func cut(_ name: ClientName, _ exchange: Exchange) {
    ask(exchange) {
      $0.cut(clientsNamed: name)
    } then: { [self] exchange, counts in
      let count = counts.reduce(0, +)
      exchange.tellOfChange("\(count) connections of the client \(name.words) are cut")
      answer(200, APIView.text(cut: count), exchange)
    }
  }

  private func deny(_ body: APIDenialBody, _ exchange: Exchange) throws(APIFault) {
    let reason = DenialReason(exchange.asker, body.note)
    guard exchange.worker.shared.denials.deny(body.fingerprint, seconds: body.seconds, for: reason) else {
      throw .body("\(ClientDenials.limit) certificates are denied already")
    }
    let name = ClientName.fingerprint(body.fingerprint)
    ask(exchange) {
      $0.cut(clientsNamed: name)
    } then: { [self] exchange, counts in
      let count = counts.reduce(0, +)
      exchange.tellOfChange(
        "the certificate \(name.words) is denied for \(body.seconds) s, \(count) connections are cut"
          + (body.note.isEmpty ? "" : ": \(LogEscape.text(Array(body.note.utf8)))"))
      keepDenials(exchange) { [self] in answer(201, APIView.text(cut: count), $0) }
    }
  }

  /// Writes the denials to the state directory, so that an answer means that they outlive the process.
  private func keepDenials(_ exchange: Exchange, then: @escaping (Exchange) -> Void) {
    let denials = exchange.worker.shared.denials
    guard let state = denials.state else { return then(exchange) }
    keep(at: state.path, exchange, then: then) { () throws(DenialState.Fault) in try denials.write() }
  }

  func refuse(_ fault: APIFault, _ exchange: Exchange) {
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

  func answer(_ status: Int, _ text: String, _ exchange: Exchange) {
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
