import Bytes
package import Crypto
package import Observability
package import TLS
import Traffic

/// `shared_store`: a Redis or Valkey server that several machines share, for what is short-lived: counts of limits, nonces,
/// keys of session tickets (docs/decisions/0039).
///
/// The folder has what features share of it: what is said to the server in `StoreClient`, the scripts that decide there in
/// `StoreScript`, and how the server stands in `StoreRecord`. Who uses a store says so in its own folder, by `StoreUse`.
package struct SharedStoreSettings: Sendable, Hashable {
  package let name: String
  /// `redis://HOST:PORT/DATABASE`, for messages.
  package let address: String
  /// Index in `HTTPSettings.groups`: its servers, whose names are resolved as those of upstreams are.
  package let group: Int
  /// nil: in clear.
  package let tls: UpstreamTLSSettings?
  /// The name by which its certificate is verified.
  package let host: String
  package let user: String?
  package let passwordFile: MaterialReference?
  package let database: Int
  /// Milliseconds that a request waits for one answer.
  package let timeout: Int
  /// Whether nobody between this machine and the server can read what is said: TLS, a unix socket, or this machine.
  package let isPrivate: Bool
  @NotCompared package var location: SourceLocation
}

/// The stores of a configuration, and where wrong passwords count.
struct SharedStores: BlockPart {
  /// By name.
  var stores: [String: SharedStoreSettings] = [:]
  /// `enrolment_failures_store`; nil: wrong passwords count in this process alone.
  var guesses: StoreUse?
}

extension HTTPSettings {
  /// Each `shared_store`, in the order of their names.
  package var sharedStores: [SharedStoreSettings] { self[SharedStores.self].stores.values.sorted { $0.name < $1.name } }
}

/// `password_file=` of each store.
struct StorePasswords: GenerationPart {
  var words: [MaterialReference: SecretBytes] = [:]
}
