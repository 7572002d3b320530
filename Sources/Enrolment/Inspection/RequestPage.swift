import Bytes
import Crypto

extension InspectionPage {
  init(_ request: SigningRequest, _ number: String) {
    self.init(kind: "request", title: "\(number)a certificate signing request")
    let names = request.alternativeNames
    say("for", "subject", .text(request.subject.isEmpty ? "(no subject)" : request.subject))
    say("names", "names", .list(names.names.map { "\($0.kind.label):\($0)" }))
    let others = request.otherExtensions
    if !others.isEmpty { say("also asks for", "extensions", .list(others), note: "ca sign copies none of it") }
    say(request.keyKind, pin: request.publicKey.sha256)
    say(request.signatureAlgorithm)
    let isSigned = request.isSigned
    say("key is proven", "signature_valid", .truth(isSigned))
    warn("the signature is not of its key: whoever made it may not have the private key", when: !isSigned)
    warn("its names can't be read", when: names.isMalformed)
    warn("\(names.others) names are of kinds that sallyport does not read", when: names.others > 0)
    warn("a name has control characters or is no address", when: names.names.contains { !$0.isWellFormed })
  }

  init(_ list: RevocationList, _ number: String, at now: Int64) {
    self.init(kind: "list", title: "\(number)a revocation list")
    say("issued by", "issuer", .text(list.issuer))
    say(
      "made", "this_update", .text(AuthorityTime.rfc3339(list.thisUpdate)),
      note: Self.distance(list.thisUpdate, from: now))
    if let next = list.nextUpdate {
      say(
        list.isExpired(at: now) ? "ended" : "next by", "next_update", .text(AuthorityTime.rfc3339(next)),
        note: Self.distance(next, from: now))
    }
    if let words = list.scope.words { say("covers only", "scope", .text(words)) }
    say("revokes", "count", .number(Int64(list.count)), note: "certificates")
    say(nil, "serials", .list(list.entries.map(\.serial)))
    if let number = list.number?.value { say("number", "number", .number(Int64(number))) }
    say(list.signatureAlgorithm)
    warn("it has ended: a server with ssl_crl refuses every client of this CA", when: list.isExpired(at: now))
    warn(
      "a server with ssl_crl refuses every certificate of this CA that no list covers", when: list.scope.words != nil)
    warn("it was made in the future", when: list.thisUpdate > now)
    warn("it has no next update, so nobody notices when it is old", when: list.nextUpdate == nil)
  }
}
