import Transport

/// The demo in the product's own language: the proxy, and the echo behind it as a second server.
struct DemoConfiguration {
  private let socket: String
  private let pin: String
  private let port: UInt16

  init(files: DemoFiles, port: UInt16) throws(DemoFailure) {
    let path = files.path("echo.sock")
    guard path.utf8.count <= SocketAddress.longestUnixPath else {
      throw DemoFailure(
        text: "\(path) is too long for the name of a socket (at most \(SocketAddress.longestUnixPath) bytes): "
          + "choose a shorter folder with --dir")
    }
    // Quoted in the configuration, where `$` has no meaning in an address.
    let special: Set<Character> = ["\\", "\""]
    socket = path.reduce(into: "") { text, character in
      if special.contains(character) { text.append("\\") }
      text.append(character)
    }
    pin = files.pin
    self.port = port
  }

  var text: String {
    """
    # Made by `sallyport demo`, and made anew at each start.
    pid        sallyport.pid;
    error_log  stderr info;

    events {}

    http {
        access_log off;

        # The proxy: who has a certificate of the CA gets in.
        server {
            listen       127.0.0.1:\(port) ssl;
            server_name  localhost;

            ssl_certificate         server.crt;
            ssl_certificate_key     server.key;
            ssl_client_certificate  ca.crt;
            ssl_verify_client       on;

            location / {
                proxy_pass https://echo;

                # The upstream's certificate must chain to the CA, bear this name, and have this very key.
                proxy_ssl_trusted_certificate  ca.crt;
                proxy_ssl_name                 \(DemoFiles.upstreamName);
                proxy_ssl_pin                  \(pin);

                proxy_http_version 1.1;
                proxy_set_header Connection       "";
                proxy_set_header Host             $host;
                proxy_set_header X-Client-DN      $ssl_client_s_dn;
                proxy_set_header X-Client-Serial  $ssl_client_serial;
                proxy_set_header X-Client-Verify  $ssl_client_verify;
            }
        }

        upstream echo {
            server "unix:\(socket)";
            keepalive 8;
        }

        # The upstream: says what it was sent.
        server {
            listen       "unix:\(socket)" ssl;
            server_name  \(DemoFiles.upstreamName);

            ssl_certificate      echo.crt;
            ssl_certificate_key  echo.key;

            location / {
                return 200 "request:        $request_method $request_uri\\nhost:           $http_host\\n\
    client DN:      $http_x_client_dn\\nclient serial:  $http_x_client_serial\\n\
    client verify:  $http_x_client_verify\\nupstream TLS:   $ssl_protocol $ssl_cipher\\n";
            }
        }
    }

    """
  }
}
