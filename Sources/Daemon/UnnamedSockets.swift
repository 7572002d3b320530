import Forward
import Observability
import Systemd
import Traffic

/// Sockets of socket units that no `listen` names. They stay open, so that a later configuration can name them; meanwhile
/// the kernel takes connections there that nobody serves.
enum UnnamedSockets {
  static func warnings(_ inherited: [InheritedSocket], _ listeners: [ListenerSettings]) -> [Diagnostic] {
    let named = listeners.compactMap { (listener) -> String? in
      guard case .systemd(let name) = listener.address else { return nil }
      return name
    }
    return Set(inherited.map(\.name)).subtracting(named).sorted().map { name in
      Diagnostic(
        .warning, at: nil,
        "systemd handed over the socket \"\(name)\", which no \"listen\" names: clients wait there in vain",
        hint: "listen systemd:\(name); or take it out of the socket unit")
    }
  }
}
