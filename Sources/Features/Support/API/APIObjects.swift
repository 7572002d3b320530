import Forward
import Observability
import TLS
package import Traffic
import Transport

/// What a feature shows under one name below `/9/http/` or `/9/stream/` of the API, and may change: things that have names themselves
/// (nginx Plus: keyvals, limit_reqs).
package protocol APIObjects: Sendable {
  /// As the path has it.
  var name: String { get }
  /// Below which of the two.
  var kind: TrafficKind { get }
  /// A GET or HEAD. `object`: the thing that the path names; nil: all are asked for.
  func show(_ object: String?, _ exchange: Exchange, _ response: any APIResponse) throws(APIFault)
  /// A POST, PATCH or DELETE of one thing, with its body.
  func change(
    _ object: String, _ body: [UInt8], _ exchange: Exchange, _ response: any APIResponse
  ) throws(APIFault)
}

extension APIObjects {
  package var kind: TrafficKind { .http }
}

/// A feature of which the API shows something.
protocol APIFeature: Feature {
  /// In the order of their names in the API's list.
  static var apiObjects: [any APIObjects] { get }
  /// What requests to the API have changed of the feature and no file keeps, so that it ends with the process: a line of
  /// each. `now`: milliseconds of the loop's clock.
  static func forgottenChanges(_ live: LiveGeneration, now: UInt64) -> [String]
}

extension APIFeature {
  static func forgottenChanges(_ live: LiveGeneration, now: UInt64) -> [String] { [] }
}

/// What the API shows of all features.
package struct APIFeatureList: ListPart {
  let all: [any APIFeature.Type]
  package let objects: [any APIObjects]

  package init(_ features: [any DirectiveFeature.Type]) {
    all = features.compactMap { $0 as? any APIFeature.Type }
    objects = all.flatMap { $0.apiObjects }
  }
}

extension SharedState {
  var apiFeatures: APIFeatureList { features.directives[APIFeatureList.self] }
}

/// How the API responds to a request.
package protocol APIResponse: AnyObject {
  func answer(_ status: Int, _ text: String, _ exchange: Exchange)
  func refuse(_ fault: APIFault, _ exchange: Exchange)
  /// Answers with a text that takes long to make: on a thread of the pool, and then in pieces.
  func list(_ exchange: Exchange, _ text: @escaping @Sendable () -> String)
  /// Writes a file on a thread of the pool. If that fails, the change itself stays, and the file is written again until it
  /// can be. `write`: writes what counts when it runs.
  func keep(
    at path: String, _ exchange: Exchange, then: @escaping (Exchange) -> Void, write: @escaping UnwrittenStates.Write)
}

extension APIResponse {
  func keep<Fault: Error>(
    at path: String, _ exchange: Exchange, then: @escaping (Exchange) -> Void,
    writing: @escaping @Sendable () throws(Fault) -> Void
  ) {
    keep(at: path, exchange, then: then) {
      do throws(Fault) { try writing() } catch { return "\(error)" }
      return nil
    }
  }
}

extension Exchange {
  /// Logs what a request to the API has changed, and tells those who record it.
  func tellOfChange(_ words: String) {
    log(.notice, "api: \(words)")
    worker.shared.apiDidChange(words, by: asker)
  }

  /// Who asks the API, for logs.
  var asker: String { "\(clientAddress.host)\(facts.clientVerdict?.certificate?.loggedIdentity ?? "")" }
}
