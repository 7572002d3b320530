import Configuration
import Crypto
import Features
import Forward
import Observability
import Traffic

/// The memory for private keys.
enum KeyMemory {
  /// An RSA key of 4096 bits takes 1.8 KiB, and a reload loads keys beside the former ones.
  private static let bytesPerKey = 16 << 10
  /// A handshake in progress keeps an ephemeral key of 32 to 66 bytes.
  private static let bytesPerConnection = 64
  private static let mostForConnections = 16 << 20
  private static let least = 512 << 10

  /// Makes OpenSSL's locked memory, as large as this configuration can need.
  static func lock(_ settings: Settings, files: Int) -> SecureHeap.Outcome {
    SecureHeap.start(bytes: bytes(for: settings, files: files))
  }

  /// `files`: how many key files the configuration names, each counted once, with those of certificates.
  static func bytes(for settings: Settings, files: Int) -> Int {
    // A key of signatures is loaded for each location, others once a file.
    let keys = settings.http.everyLocation.reduce(files) { count, location in
      location.settings.signatures.reduce(count) { $0 + $1.keys.count }
    }
    let (connections, overflow) = settings.main.workers.resolved
      .multipliedReportingOverflow(by: settings.main.workerConnections)
    let handshakes = overflow ? mostForConnections : min(connections, mostForConnections / bytesPerConnection)
    return least + keys * bytesPerKey + (overflow ? handshakes : handshakes * bytesPerConnection)
  }
}
