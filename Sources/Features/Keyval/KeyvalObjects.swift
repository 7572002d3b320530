import Bytes
import Forward
import HTTP
import JSON
import Observability
import Traffic
import Transport

/// The zones of `keyval` in the API (nginx Plus: `/9/http/keyvals`), which shows and changes their pairs.
struct KeyvalObjects: APIObjects {
  let name = "keyvals"

  /// Pairs that are told at once, and their bytes: more of them would hold the worker up.
  private static let mostPairs = 500, mostBytes = 512 * 1024

  private static func isShort(_ zone: KeyvalZone) -> Bool { zone.count <= mostPairs && zone.bytes <= mostBytes }

  private typealias Named = (settings: KeyvalZoneSettings, zone: KeyvalZone)

  private func named(_ name: String, _ exchange: Exchange) throws(APIFault) -> Named {
    guard let found = exchange.session.live.keyvals.first(where: { $0.settings.name == name }) else { throw .keyval }
    return found
  }

  // MARK: What it shows

  func show(_ object: String?, _ exchange: Exchange, _ response: any APIResponse) throws(APIFault) {
    let now = exchange.worker.loop.now
    guard let object else {
      let zones = exchange.session.live.keyvals.map { (name: $0.settings.name, zone: $0.zone) }
      guard zones.allSatisfy({ Self.isShort($0.zone) }) else {
        return response.list(exchange) { Self.text(zones, now: now) }
      }
      return response.answer(200, Self.text(zones, now: now), exchange)
    }
    let zone = try named(object, exchange).zone
    guard let asked = Self.key(exchange) else {
      guard Self.isShort(zone) else { return response.list(exchange) { Self.text(zone.all(now: now)) } }
      return response.answer(200, Self.text(zone.all(now: now)), exchange)
    }
    guard let value = zone.pair(asked, now: now) else { throw .key }
    response.answer(200, Self.text([(asked, value)]), exchange)
  }

  /// The argument `key`, decoded; nil without it.
  private static func key(_ exchange: Exchange) -> [UInt8]? {
    for part in exchange.arguments.split(separator: 0x26) where part.starts(with: Array("key=".utf8)) {
      return PercentEncoding.decode(part.dropFirst(4))
    }
    return nil
  }

  private static func text(_ pairs: [(key: [UInt8], value: [UInt8])]) -> String {
    var json = JSONText()
    json.object { write(pairs, &$0) }
    return json.text + "\n"
  }

  private static func text(_ zones: [(name: String, zone: KeyvalZone)], now: UInt64) -> String {
    var json = JSONText()
    json.object { json in
      for (name, zone) in zones { json.object(name) { write(zone.all(now: now), &$0) } }
    }
    return json.text + "\n"
  }

  private static func write(_ pairs: [(key: [UInt8], value: [UInt8])], _ json: inout JSONText) {
    for (key, value) in pairs {
      json.member(String(decoding: key, as: UTF8.self), String(decoding: value, as: UTF8.self))
    }
  }

  // MARK: What it changes

  func change(
    _ object: String, _ bytes: [UInt8], _ exchange: Exchange, _ response: any APIResponse
  ) throws(APIFault) {
    let now = exchange.worker.loop.now
    let (settings, zone) = try named(object, exchange)
    if let store = settings.store { return try change(settings, zone, in: store, bytes, exchange, response) }
    if exchange.head.method == .delete {
      zone.removeAll().giveUp(exchange.worker.shared.pool)
      exchange.tellOfChange("the zone \"\(object)\" of keyval is emptied")
      return keep(zone, settings.state, exchange, response) { response.answer(204, "", $0) }
    }
    let body = try APIPairBody(bytes), isNew = exchange.head.method == .post
    let change: KeyvalZone.Change
    if let value = body.value {
      change = zone.set(body.key, to: value, isNew: isNew, timeout: body.expire ?? settings.timeout, now: now)
    } else {
      guard !isNew else { throw APIFault(status: 400, code: "KeyvalFormatError", text: "the value must be a string") }
      change = zone.remove(body.key, now: now)
    }
    if let fault = APIFault(change) { throw fault }
    exchange.tellOfChange("the key \"\(LogEscape.text(body.key))\" of keyval zone \"\(object)\" is changed")
    keep(zone, settings.state, exchange, response) { response.answer(isNew ? 201 : 204, "", $0) }
  }

  /// Changes a pair in a store, for all machines: the others have it within a second.
  private func change(
    _ settings: KeyvalZoneSettings, _ zone: KeyvalZone, in use: StoreUse, _ bytes: [UInt8], _ exchange: Exchange,
    _ response: any APIResponse
  ) throws(APIFault) {
    let now = exchange.worker.loop.now
    var change = SharedKeyvalChange(kind: .clear)
    if exchange.head.method != .delete {
      let body = try APIPairBody(bytes), isNew = exchange.head.method == .post
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
      then: StoreWait.answer(exchange, change.outcome) { [change] exchange, answer in
        guard case .success(let outcome) = answer else { return response.refuse(.store, exchange) }
        if let fault = APIFault(outcome) { return response.refuse(fault, exchange) }
        zone.apply(change, now: exchange.worker.loop.now)?.giveUp(exchange.worker.shared.pool)
        let key = change.kind == .clear ? "all keys" : "the key \"\(LogEscape.text(change.key))\""
        exchange.tellOfChange(
          "\(key) of keyval zone \"\(settings.name)\" is changed in the store \"\(use.store)\"")
        response.answer(change.kind == .add ? 201 : 204, "", exchange)
      })
    StoreWait.leave(exchange)
  }

  /// Writes the pairs to the zone's `state`, so that an answer means that they outlive the process.
  private func keep(
    _ zone: KeyvalZone, _ state: KeyvalState?, _ exchange: Exchange, _ response: any APIResponse,
    then: @escaping (Exchange) -> Void
  ) {
    guard let state else { return then(exchange) }
    let change = zone.changes
    // If this fails, it runs again later.
    response.keep(at: state.path, exchange, then: then) { () throws(KeyvalState.Fault) in
      try zone.keep(change) { () throws(KeyvalState.Fault) in try state.write(zone, now: MonotonicClock.milliseconds) }
    }
  }
}

extension Keyval {
  static var apiObjects: [any APIObjects] { [KeyvalObjects()] }

  static func forgottenChanges(_ live: LiveGeneration, now: UInt64) -> [String] {
    live.keyvals.compactMap { settings, zone in
      guard settings.state == nil, settings.store == nil else { return nil }
      let count = zone.all(now: now).count
      return count > 0 ? "\(count) pairs of keyval_zone \"\(settings.name)\"" : nil
    }
  }
}

extension APIFault {
  fileprivate static let keyval = APIFault(status: 404, code: "KeyvalNotFound", text: "keyval not found")
  fileprivate static let key = APIFault(status: 404, code: "KeyvalKeyNotFound", text: "key not found")
  fileprivate static let store = APIFault(
    status: 503, code: "StoreUnavailable",
    text: "the shared store gives no answer, so ask again whether the pair has changed")

  /// nil: the change is made.
  fileprivate init?(_ change: KeyvalZone.Change) {
    switch change {
    case .done: return nil
    case .exists: self.init(status: 409, code: "KeyvalKeyExists", text: "key already exists")
    case .absent: self = .key
    case .malformed:
      self.init(
        status: 400, code: "KeyvalKeyInvalid", text: "the key must be an address or a network such as 10.0.0.0/8")
    case .busy: self = .store
    case .full: self.init(status: 409, code: "KeyvalFull", text: "no pair fits into the zone any more")
    }
  }
}

/// The body of a POST or PATCH of a pair.
struct APIPairBody: Equatable {
  let key: [UInt8]
  /// nil: the key is removed.
  let value: [UInt8]?
  /// Milliseconds; nil: as the zone says.
  let expire: Int?

  init(_ bytes: [UInt8]) throws(APIFault) {
    func fault(_ text: String) -> APIFault { APIFault(status: 400, code: "KeyvalFormatError", text: text) }
    let members = try APIJSON.members(bytes)
    guard members.count == 1, let (name, said) = members.first else {
      throw fault("only one key can be added or changed")
    }
    var value = said, expire: Int?
    if let object = said.members {
      guard Set(object.keys).isSubset(of: ["value", "expire"]), let inner = object["value"] else {
        throw fault("expected \"value\" and \"expire\"")
      }
      value = inner
      if let time = object["expire"] {
        guard let number = time.integer, let whole = Int(exactly: number), (1...86_400_000 * 365).contains(whole) else {
          throw fault("invalid \"expire\": milliseconds")
        }
        expire = whole
      }
    }
    key = Array(name.utf8)
    self.expire = expire
    if value == .null, said.members == nil {
      self.value = nil
    } else {
      guard let text = value.text else { throw fault("the value must be a string") }
      self.value = Array(text.utf8)
    }
    guard (1...KeyvalZone.longest).contains(key.count), self.value?.count ?? 0 <= KeyvalZone.longest else {
      throw fault("a key or a value is empty or too long: \(KeyvalZone.longest) bytes at most")
    }
  }
}
