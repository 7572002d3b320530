import Bytes
import Crypto
import Observability
import Transport

extension Balancer.Plan {
  init(_ group: ResolvedGroup) {
    let isSticky = group.settings.isSticky
    self.init(
      peers: group.servers.map { server in
        let settings = server.settings
        return Balancer.Peer(
          weight: settings.weight, maxFails: settings.maxFails,
          failTimeout: MonotonicClock.milliseconds(ofSeconds: settings.failTimeout),
          maxConnections: settings.maxConnections,
          isBackup: settings.isBackup, isDown: settings.isDown,
          slowStart: MonotonicClock.milliseconds(ofSeconds: settings.slowStart),
          isDraining: settings.isDraining, identifier: isSticky ? server.identifier : [], address: server.address)
      }, method: group.settings.method, ring: group.ring, triesFailed: group.settings.triesFailedServers)
  }

}

extension ResolvedGroup.Server {
  /// What `sticky` knows the server by: its `route=`, else the MD5 of its address in hexadecimal digits, as in nginx.
  public var identifier: [UInt8] {
    settings.route.isEmpty
      ? Array(Hex.encode(Digest.of(Array(address.description.utf8), .md5)).utf8) : settings.route
  }
}
