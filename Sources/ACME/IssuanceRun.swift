import Crypto
import Glibc

/// What performs the actions of an issuance, on a thread that may wait.
package struct IssuanceRun: Sendable {
  package typealias Publish = @Sendable ([ChallengeAnswer]) throws(ACMEError) -> Void

  /// Most servers refuse a nonce now and then (RFC 8555 §6.5); a test server refuses 19 of 20.
  private static let mostNonces = 200

  private let client: ACMEClient
  private let publish: Publish
  private let withdraw: @Sendable () -> Void
  /// Whether the attempt is to be given up: the process ends, or the configuration has changed.
  private let isGivenUp: @Sendable () -> Bool

  /// `publish`: returns when the answers can be asked for. `withdraw`: called once after it, whatever comes.
  package init(
    _ client: ACMEClient, publish: @escaping Publish, withdraw: @escaping @Sendable () -> Void,
    isGivenUp: @escaping @Sendable () -> Bool = { false }
  ) {
    self.client = client
    self.publish = publish
    self.withdraw = withdraw
    self.isGivenUp = isGivenUp
  }

  /// What came of an attempt.
  package struct Ending: Sendable {
    package var outcome: Result<IssuedCertificate, ACMEError>
    /// The account's URL, as far as it is known.
    package var accountURL: String?
    package var notices: [String]
  }

  package func callAsFunction(_ request: IssuanceRequest) -> Ending {
    var issuance = Issuance(request)
    var nonces = Nonces(client: client)
    var event = Issuance.Event.begin
    var hasPublished = false
    defer { if hasPublished { withdraw() } }
    func ending(_ outcome: Result<IssuedCertificate, ACMEError>) -> Ending {
      Ending(outcome: outcome, accountURL: issuance.accountURL, notices: issuance.notices)
    }
    while true {
      do throws(ACMEError) {
        if isGivenUp() { throw ACMEError("the attempt was given up: the process ends or has another configuration") }
        switch issuance.take(event, at: Int64(time(nil))) {
        case .get(let url): event = .response(try client.get(url))
        case .post(let url, let payload, let signer):
          event = .response(
            try nonces.post(url, payload, signer, request.accountKey, issuance.directory?.newNonce))
        case .publish(let answers):
          hasPublished = true
          try publish(answers)
          event = .published
        case .wait(let seconds):
          for _ in 0..<seconds * 10 where !isGivenUp() { usleep(100_000) }
          event = .waited
        case .done(let certificate): return ending(.success(certificate))
        case .failed(let error): return ending(.failure(error))
        }
      } catch {
        return ending(.failure(error))
      }
    }
  }

  /// The nonces of one attempt: each answer brings the next request's.
  private struct Nonces {
    let client: ACMEClient
    var next: String?

    mutating func post(
      _ url: ACMEURL, _ payload: String?, _ signer: JWS.Signer, _ key: JSONWebKey, _ source: ACMEURL?
    ) throws(ACMEError) -> ACMEResponse {
      for _ in 0..<mostNonces {
        let nonce = try take(source)
        guard let body = JWS.body(payload, url: url.description, nonce: nonce, signer: signer, key: key) else {
          throw ACMEError("OpenSSL can't sign by the account's key", cure: .change)
        }
        let response = try client.post(url, body)
        next = response.nonce
        if response.problem?.type != "badNonce" { return response }
      }
      throw ACMEError("the server refused \(mostNonces) nonces, one after the other")
    }

    private mutating func take(_ source: ACMEURL?) throws(ACMEError) -> String {
      if let nonce = next.take() { return nonce }
      guard let source else { throw ACMEError("the server names no place for nonces") }
      let response = try client.head(source)
      guard let nonce = response.nonce else { throw ACMEError("the server gives no nonce (\(response.status))") }
      return nonce
    }
  }
}
