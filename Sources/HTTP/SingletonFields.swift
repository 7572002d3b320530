/// The fields of a request that RFC 9110 §5.5 calls singleton fields: their value is no list.
///
/// Why: a recipient of two such lines may refuse the request, take either, or join them to a value that nobody sent.
/// Fields that no standard describes aren't here, because their recipients alone know whether they are lists.
public enum SingletonFields {
  // RFC 9110, 8470, 6454, 6455 (WebSocket), 4918 (WebDAV) and 9440; W3C's Trace Context; gRPC over HTTP/2.
  private static let names: Set<String> = [
    "host", "authorization", "proxy-authorization", "user-agent", "referer", "from", "date", "max-forwards", "range",
    "if-range", "if-modified-since", "if-unmodified-since", "content-type", "content-length", "content-location",
    "content-range", "early-data", "origin", "upgrade-insecure-requests", "sec-websocket-key",
    "sec-websocket-version", "depth", "destination", "overwrite", "client-cert", "traceparent", "grpc-timeout",
  ]

  /// Whether a request has a field of this name once at most. The name is compared without case.
  public static func contains(_ name: some Sequence<UInt8>) -> Bool {
    names.contains(String(decoding: Array(name), as: UTF8.self).lowercased())
  }
}
