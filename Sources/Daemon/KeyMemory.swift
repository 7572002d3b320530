import Configuration
import Crypto
import Observability

/// The memory for private keys.
enum KeyMemory {
  /// An RSA key of 4096 bits takes 1.8 KiB, and a reload loads keys beside the former ones.
  private static let bytesPerKey = 16 << 10
  /// A handshake in progress keeps an ephemeral key of 32 to 66 bytes.
  private static let bytesPerConnection = 64
  private static let mostForConnections = 16 << 20
  private static let least = 512 << 10

  /// Makes OpenSSL's locked memory, as large as this configuration can need. `count`: of files, certificates among them.
  static func lock(_ settings: Settings, keys count: Int) -> SecureHeap.Outcome {
    let keys = count * bytesPerKey
    let (connections, overflow) = settings.main.workers.resolved
      .multipliedReportingOverflow(by: settings.main.workerConnections)
    let handshakes = overflow ? mostForConnections : min(connections, mostForConnections / bytesPerConnection)
    return SecureHeap.start(bytes: least + keys + (overflow ? handshakes : handshakes * bytesPerConnection))
  }
}
