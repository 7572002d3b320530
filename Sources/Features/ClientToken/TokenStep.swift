import Bytes
import Crypto
import HTTP
import Language
import Observability
import Signature
import TLS
import Traffic

/// `client_token`: a step before the content. It runs after the access phase, so no `satisfy any` bypasses it.
final class TokenStep: PhaseStep {
  private let settings: ClientToken
  private let keys: LiveKeys
  private var cache = TokenCache()
  /// The certificate of the last request, whose connection brings the next one as a rule.
  private var last: (leaf: Certificate, digest: [UInt8])?

  private static let bearer = FieldBlock([(name, Array("Bearer".utf8))])
  private static let malformed = FieldBlock([(name, Array("Bearer error=\"invalid_request\"".utf8))])
  private static let invalid = FieldBlock([(name, Array("Bearer error=\"invalid_token\"".utf8))])
  private static let insufficient = FieldBlock([(name, Array("Bearer error=\"insufficient_scope\"".utf8))])
  private static let name = Array("WWW-Authenticate".utf8)

  init(_ settings: ClientToken, _ keys: LiveKeys) {
    self.settings = settings
    self.keys = keys
  }

  override var words: String { ClientToken.tokenLine.name }

  override func run(_ exchange: Exchange) -> StepOutcome {
    // Its main request is judged itself, before its content and its mirrors.
    if exchange.stream?.isSubrequest == true { return .next }
    switch BearerCredentials(exchange.head) {
    case .none: return pass(exchange)
    case .malformed: return refuse(400, Self.malformed, "malformed or repeated credentials", exchange)
    case .token(let text):
      guard let (set, version) = current() else {
        exchange.tellOfRepeated(.error, "client token: there are no keys of \(settings.source) that may be used")
        return .fail(ErrorResponse(503))
      }
      exchange.worker.clock.update()
      do throws(TokenFault) {
        let token = try verified(text, set, version)
        let now = exchange.worker.clock.seconds
        try token.check(by: settings.terms, of: certificate(of: exchange), now: now)
        return judge(token, exchange)
      } catch {
        return refuse(401, Self.invalid, error.description, exchange)
      }
    }
  }

  override func rehearse(_ exchange: Exchange, _ trace: ExplainTrace) -> StepOutcome {
    guard case .fetched = keys, case .token = BearerCredentials(exchange.head) else { return run(exchange) }
    trace.add("asks", "\(settings.source) for its keys; the token is taken as valid, its claims as empty")
    return pass(exchange, isOptional: true)
  }

  /// A request without a token.
  private func pass(_ exchange: Exchange) -> StepOutcome {
    pass(exchange, isOptional: settings.isOptional && settings.requirements.isEmpty)
  }

  private func pass(_ exchange: Exchange, isOptional: Bool) -> StepOutcome {
    exchange.use(TokenState.self).verdict = "NONE"
    guard isOptional else { return refuse(401, Self.bearer, exchange) }
    for variable in settings.assigned { exchange.set(variable.slot, []) }
    return .next
  }

  private func current() -> (WebKeySet, version: UInt64)? {
    switch keys {
    case .fixed(let set): set.map { ($0, 0) }
    case .fetched(let keys): keys.current()
    }
  }

  private func verified(_ text: [UInt8], _ set: WebKeySet, _ version: UInt64) throws(TokenFault) -> VerifiedToken {
    let digest = Digest.of(text)
    if let known = cache.find(digest, version) { return known }
    let token: VerifiedToken
    do throws(TokenFault) { token = try settings.terms.verify(WebToken(text), by: set) } catch {
      // The issuer may have a new key.
      if case .unknownKey = error, case .fetched(let keys) = keys { keys.ask() }
      throw error
    }
    cache.keep(token, of: text.count, for: digest, version)
    return token
  }

  private func judge(_ token: VerifiedToken, _ exchange: Exchange) -> StepOutcome {
    for requirement in settings.requirements where !token.has(requirement.claim, among: requirement.texts) {
      let fault = "\(requirement.claim) is not what client_token_require asks for"
      return refuse(403, Self.insufficient, fault, exchange)
    }
    for variable in settings.assigned {
      exchange.set(variable.slot, token.text(variable.path).map { Array($0.utf8) } ?? [])
    }
    exchange.use(TokenState.self).verdict = "SUCCESS"
    return .next
  }

  /// The SHA-256 of the certificate whose key the client has proved to have. RFC 8705 §2.2 has certificates of no CA, too. A
  /// front vouches only for those that verified.
  private func certificate(of exchange: Exchange) -> [UInt8]? {
    switch exchange.facts.clientVerdict {
    case .verified(let chain)?: digest(of: chain.leaf)
    case .pinned(let leaf)?: digest(of: leaf)
    case .unverified(let leaf, _)?: exchange.facts.relayed == nil ? digest(of: leaf) : nil
    case .refused?, .absent?, nil: nil
    }
  }

  private func digest(of leaf: Certificate) -> [UInt8] {
    // The object that is kept lives, so no other one has its address.
    if let last, last.leaf.handle == leaf.handle { return last.digest }
    let digest = leaf.sha256
    last = (leaf, digest)
    return digest
  }

  private func refuse(_ status: Int, _ fields: FieldBlock, _ fault: String, _ exchange: Exchange) -> StepOutcome {
    exchange.log(.info, "client token refused: \(fault)")
    exchange.use(TokenState.self).verdict = "FAILED:\(fault)"
    return refuse(status, fields, exchange)
  }

  private func refuse(_ status: Int, _ fields: FieldBlock, _ exchange: Exchange) -> StepOutcome {
    exchange.setOwnFields(fields)
    return .fail(ErrorResponse(status))
  }
}

/// What an exchange knows of its request's token.
final class TokenState: FeatureState {
  /// `$client_token_verdict`
  var verdict = ""

  override func reset() { verdict = "" }
}

/// The bearer token of a request (RFC 6750 §2.1). None is taken from a query or a body, which logs and caches keep.
enum BearerCredentials: Equatable {
  /// The request has no credentials, or those of another scheme.
  case none
  /// More than one field, or no token behind the scheme.
  case malformed
  case token([UInt8])

  init(_ head: RequestHead) {
    let bytes = head.bytes.readable
    var found: [UInt8]?
    for field in head.fields where field.id == .authorization {
      guard found == nil else {
        self = .malformed
        return
      }
      found = Array(bytes[field.value])
    }
    guard let found, found.count >= 6, zip(found, "bearer".utf8).allSatisfy({ ASCII.lower($0) == $1 }) else {
      self = .none
      return
    }
    let rest = found.dropFirst(6), token = rest.drop { $0 == 0x20 }
    if !rest.isEmpty, rest.first != 0x20 {
      self = .none
    } else {
      self = token.isEmpty || token.contains { !Self.isOfToken($0) } ? .malformed : .token(Array(token))
    }
  }

  /// The bytes of a token68 (RFC 9110 §11.2).
  private static func isOfToken(_ byte: UInt8) -> Bool {
    (byte | 0x20) &- 0x61 < 26 || byte &- 0x30 < 10 || [0x2D, 0x2E, 0x5F, 0x7E, 0x2B, 0x2F, 0x3D].contains(byte)
  }
}

/// Tokens whose signatures were verified, by the SHA-256 of their text, so that a client that sends its token with each
/// request costs one verification. The time and the client's certificate are judged for each request.
struct TokenCache {
  static let mostTokens = 1024
  /// Bytes of all their texts.
  static let mostBytes = 1 << 20

  private struct Entry {
    let token: VerifiedToken
    let size: Int
    /// That of the keys that verified it.
    let version: UInt64
  }

  private var entries = LRUTable<[UInt8], Entry>()
  private var size = 0

  /// nil: the token is not known, or only by keys that no longer count.
  mutating func find(_ digest: [UInt8], _ version: UInt64) -> VerifiedToken? {
    guard let place = entries.place(of: digest), let entry = entries[place], entry.version == version else {
      return nil
    }
    entries.use(place)
    return entry.token
  }

  mutating func keep(_ token: VerifiedToken, of size: Int, for digest: [UInt8], _ version: UInt64) {
    if let place = entries.place(of: digest) { remove(place) }
    entries.insert(Entry(token: token, size: size, version: version), for: digest)
    self.size += size
    while entries.count > Self.mostTokens || self.size > Self.mostBytes, let oldest = entries.oldest { remove(oldest) }
  }

  private mutating func remove(_ place: LRUTable<[UInt8], Entry>.Place) {
    size -= entries[place]?.size ?? 0
    entries.remove(place)
  }
}
