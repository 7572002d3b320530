/// How long a connection may stay that a drain or a reload ends.
///
/// HTTP/1 has no message by which a server announces the end of an idle connection, so a request and the end can cross.
/// nginx closes idle connections at once, and a proxy in front of it reports such a request as 502. sallyport first waits:
/// a request of this time gets its response, with `Connection: close`. `worker_shutdown_timeout` can end the wait earlier.
enum DrainPatience {
  /// Milliseconds for an idle connection of HTTP/1 to send one more request. As long as a client of HTTP/2 has to answer
  /// the first GOAWAY.
  static let idle = 1000
}
