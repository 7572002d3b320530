/// The demo's answer to a client that the proxy refuses: why, as a page for browsers and as text for others.
///
/// The proxy itself answers, so nothing of the request reaches an upstream. The texts are directives in quotation marks:
/// they must have no such mark of their kind, and no `$` that is no variable. OpenSSL's words are the only value in them,
/// so nothing that a client chose gets into the page.
enum DemoRefusal {
  /// Blocks of `http`.
  static let maps = """
        # What a refused client is told.
        map $ssl_client_verify $demo_reason {
            NONE                                             "you presented no client certificate";
            "FAILED:certificate has expired"                 "your certificate has expired";
            "FAILED:certificate is not yet valid"            "your certificate is not yet valid";
            "FAILED:certificate revoked"                     "your certificate is revoked: the list ca.crl names it";
            "FAILED:unable to verify the first certificate"  "another CA issued your certificate: the demo trusts ca.crt alone";
            "~^FAILED:(?<demo_fault>.*)$"                    "your certificate did not verify: $demo_fault";
        }
        map $http_accept $demo_form {
            default      text;
            "~text/html" page;
        }
    """

  private static let remedy =
    "In the demo&#39;s folder, client.crt with client.key, or client.p12, is the certificate that gets in. guide.md tells how."

  /// Directives of the server. Clients can't reach these locations themselves.
  static let locations = """
            error_page 495 496 /sallyport-demo/refused/$demo_form;
            location = /sallyport-demo/refused/text {
                internal;
                default_type text/plain;
                return 400 "400: $demo_reason\\n\(remedy.replacing("&#39;", with: "'"))\\n";
            }
            location = /sallyport-demo/refused/page {
                internal;
                default_type text/html;
                add_header Cache-Control no-store always;
                add_header Content-Security-Policy "default-src 'none'; style-src 'unsafe-inline'" always;
                return 400 '\(page)';
            }
    """

  private static let page =
    "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>400 refused</title><style>"
    + DemoPage.style.replacing("\n", with: "")
    + "</style></head><body><main><header class=\"refused\"><h1>You were refused</h1><p id=\"reason\">$demo_reason</p></header>"
    + "<p>\(remedy)</p></main></body></html>\\n"
}
