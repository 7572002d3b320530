extension DirectiveSample {
  static let rewriting: [String: DirectiveSample] = [
    "return": .init("return 204;"),
    "set": .init("set $x y;"),
    "rewrite": .init("rewrite ^/a /b last;", or: "rewrite ^/a /b break;"),
    "break": .init("break;"),
    "if": .init("if ($arg_a) { return 204; }"),
    "rewrite_log": .init("rewrite_log on;"),
    "uninitialized_variable_warn": .init("uninitialized_variable_warn off;"),
    "map": .init("map $arg_a $m { a 1; }", or: "map $arg_a $m { a 2; }"),
    "geo": .init("geo $g { 10.0.0.0/8 a; }", or: "geo $g { 10.0.0.0/9 a; }"),
    "split_clients": .init("split_clients $uri $s { 10% a; * b; }", or: "split_clients $uri $s { 11% a; * b; }"),
    "valid_referers": .init("valid_referers none a.test;"),
    "limit_except": .init("limit_except GET { deny all; }"),
    "satisfy": .init("satisfy any;"),
    "auth_delay": .init("auth_delay 7s;"),
    "recursive_error_pages": .init("recursive_error_pages on;"),
  ]
}
