import Systemd

/// Keeps systemd's file descriptor store equal to the sockets that listen.
@MainActor
final class SocketStore {
  private struct Entry { weak var socket: ListeningSocket? }

  /// What systemd has, by name.
  private var stored: [String: Entry] = [:]
  private let isOpen = KeptSocket.isStoreOpen

  /// `kept`: what this process got from systemd's store, or from a predecessor that had stored it. systemd closes what
  /// the configuration doesn't want any more.
  func begin(_ kept: KeptSockets, _ sockets: ListeningSockets) {
    guard isOpen else { return }
    let (taken, unused) = kept.names(takenBy: sockets)
    for name in unused.sorted() { Notification.send(.forget(socketsNamed: name)) }
    for (name, socket) in sockets.byKeptName where taken.contains(name) { remember(socket, name) }
    follow(sockets)
  }

  /// Stores the sockets of new addresses, and has systemd close those that no longer listen. Call this before the workers
  /// release sockets.
  func follow(_ sockets: ListeningSockets) {
    guard isOpen else { return }
    let present = sockets.byKeptName
    // A socket that takes the place of one with the same address has the same name.
    for (name, entry) in stored where !present.contains(where: { $0.name == name && $0.socket === entry.socket }) {
      Notification.send(.forget(socketsNamed: name))
      entry.socket?.handOn(false)
      stored[name] = nil
    }
    for (name, socket) in present where stored[name] == nil {
      if KeptSocket.store(socket.all, as: name) == .sent { remember(socket, name) }
    }
  }

  /// Whether the sockets stay open, for the next process, when this one ends.
  func keeps(_ sockets: ListeningSockets) -> Bool {
    isOpen && sockets.byKeptName.allSatisfy { name, socket in stored[name]?.socket === socket }
  }

  private func remember(_ socket: ListeningSocket, _ name: String) {
    stored[name] = Entry(socket: socket)
    socket.handOn(true)
  }
}
