import Bytes
public import Observability
public import TLS
package import Transport
public import Upstream

/// Everything that the workers need to serve one configuration. Immutable, and shared by all workers.
///
/// Everything that can fail (files, keys, names, logs) happens before a generation is made, so a reload can't fail
/// halfway. TLS sessions and kept connections belong to one generation and end with it.
public final class Generation: Sendable {
  /// Counts from 1.
  public let number: Int
  public let http: HTTPSettings
  /// By index in `http.servers`; nil for servers without TLS.
  public let serverContexts: [ServerTLSContext?]
  /// One context for each different value of the settings, so that only locations with equal settings share sessions.
  public let upstreamContexts: [UpstreamTLSSettings: UpstreamTLSContext]
  /// By index in `http.groups`, names resolved.
  public let groups: [ResolvedGroup]
  /// That of the main context.
  public let errorLog: ErrorLog
  public let errorLogs: [[ErrorLogSettings]: ErrorLog]
  public let accessLogs: [AccessLogDestination: AccessLog]
  /// The logs that features write by themselves, by path.
  package let logFiles: [String: LogFile]
  /// The addresses of the host names of locations.
  package let hosts: [String: [SocketAddress]]
  /// The servers of each `resolver` line, names resolved.
  package let nameServers: [ResolverSettings: [SocketAddress]]
  package let parts: GenerationParts

  package init(
    number: Int, http: HTTPSettings, serverContexts: [ServerTLSContext?],
    upstreamContexts: [UpstreamTLSSettings: UpstreamTLSContext], groups: [ResolvedGroup], errorLog: ErrorLog,
    errorLogs: [[ErrorLogSettings]: ErrorLog], accessLogs: [AccessLogDestination: AccessLog],
    logFiles: [String: LogFile] = [:], hosts: [String: [SocketAddress]] = [:],
    nameServers: [ResolverSettings: [SocketAddress]] = [:],
    parts: GenerationParts = GenerationParts()
  ) {
    self.parts = parts
    self.nameServers = nameServers
    self.number = number
    self.http = http
    self.serverContexts = serverContexts
    self.upstreamContexts = upstreamContexts
    self.groups = groups
    self.errorLog = errorLog
    self.errorLogs = errorLogs
    self.accessLogs = accessLogs
    self.logFiles = logFiles
    self.hosts = hosts
  }
}

/// A listening socket as one worker has it.
public struct ListenerSocket: Sendable, Hashable {
  /// Index in `HTTPSettings.listeners`.
  public var listener: Int
  public var descriptor: Int32
  /// Other workers accept from the same descriptor.
  public var isShared: Bool

  public init(listener: Int, descriptor: Int32, isShared: Bool) {
    self.listener = listener
    self.descriptor = descriptor
    self.isShared = isShared
  }
}
