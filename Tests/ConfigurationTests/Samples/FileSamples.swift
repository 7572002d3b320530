extension DirectiveSample {
  /// The samples of files and of compression.
  static let files: [String: DirectiveSample] = {
    let root = "root /r;", gzip = "gzip on;"
    return [
      "root": .init("root /r;"),
      "alias": .init("alias /r/;"),
      "index": .init("index a.html;", beside: root),
      "try_files": .init("try_files $uri =404;", beside: root),
      "types": .init("types { a/b c; }"),
      "default_type": .init("default_type a/b;"),
      "log_not_found": .init("log_not_found off;", beside: root),
      "etag": .init("etag off;", beside: root),
      "if_modified_since": .init("if_modified_since before;", beside: root),
      "max_ranges": .init("max_ranges 7;", beside: root),
      "autoindex": .init("autoindex on;", beside: root),
      "autoindex_format": .init("autoindex_format xml;", beside: "root /r; autoindex on;"),
      "autoindex_exact_size": .init("autoindex_exact_size off;", beside: "root /r; autoindex on;"),
      "autoindex_localtime": .init("autoindex_localtime on;", beside: "root /r; autoindex on;"),
      "random_index": .init("random_index on;", beside: root),
      "empty_gif": .init("empty_gif;", location: ""),
      "gzip": .init("gzip on;"),
      "gzip_static": .init("gzip_static on;"),
      "gunzip": .init("gunzip on;"),
      "gzip_types": .init("gzip_types text/plain;", beside: gzip),
      "gzip_comp_level": .init("gzip_comp_level 7;", beside: gzip),
      "gzip_min_length": .init("gzip_min_length 7;", beside: gzip),
      "gzip_http_version": .init("gzip_http_version 1.0;", beside: gzip),
      "gzip_proxied": .init("gzip_proxied any;", beside: gzip),
      "gzip_vary": .init("gzip_vary on;", beside: gzip),
      "gzip_disable": .init("gzip_disable msie6;", beside: gzip),
    ]
  }()
}
