import Review

/// The section of guide.md about servers that a client must refuse: which there are, and a loop over all for each language.
struct DemoTrialGuide {
  let text: String

  init(_ guide: DemoGuide) {
    guard let first = guide.badServers else {
      text = """
        ## Servers that a client must refuse

        `sallyport demo --bad-servers 8450` also serves servers with one fault each: an expired certificate, a wrong name, old
        TLS and others. This page then has a loop over all of them.


        """
      return
    }
    text = Self.section(guide, first)
  }

  /// A loop in which the pin is compared everywhere would hide whether the client verifies the rest.
  private static func section(_ guide: DemoGuide, _ first: UInt16) -> String {
    let rows = BadServer.allCases.map {
      "| `\($0.rawValue)` | \($0.port(after: first)) | \($0.fault) |"
    }
    let shell = BadServer.allCases.map { "\($0.rawValue):\($0.port(after: first))" }
    func pairs(_ open: String, _ close: String, indent: String) -> String {
      BadServer.allCases.map { "\(indent)\(open)\"\($0.rawValue)\", \($0.port(after: first))\(close)," }
        .joined(separator: "\n")
    }
    return """
      ## Servers that a client must refuse

      Each server has one fault. It has a port of its own, for clients that know no other name than localhost. On port
      \(first) the name chooses: `https://expired.localhost:\(first)/`. They ask for no client certificate.

      | server | port | fault |
      | --- | --- | --- |
      \(rows.joined(separator: "\n"))

      A client that sends a request to any of them but `good` has accepted what it must refuse. `good` shows that the client
      can get through at all. `sallyport demo --report --dir \(guide.quoted(""))` lists what each client did since the demo
      started, and exits with status 1 if one was accepted or nobody tried it. Clients that pin no key and ask for no
      revocation need `--may-accept wrong-pin --may-accept revoked`.

      The loops below compare the pin with two servers only: elsewhere, it would hide what the other checks miss.

      ### A loop for curl

          for server in \(shell.joined(separator: " ")); do
            set -- --cacert \(guide.quoted("ca.crt"))
            case $server in good:* | wrong-pin:*) set -- "$@" --pinnedpubkey '\(guide.pin)' ;; esac
            case $server in good:* | revoked:*) set -- "$@" --cert-status ;; esac
            if curl -q -sS --noproxy '*' -o /dev/null "$@" "https://localhost:${server#*:}/"; then
              echo "${server%:*} accepted"
            else
              echo "${server%:*} refused"
            fi
          done

      ### A loop for Python

          import http.client, ssl

          context = ssl.create_default_context(cafile=\(guide.literal("ca.crt")))
          context.load_verify_locations(\(guide.literal(DemoBadServers.listName)))
          context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
          with open(\(guide.literal("server.crt"))) as file:
              pinned = ssl.PEM_cert_to_DER_cert(file.read())
          for server, port in [
      \(pairs("(", ")", indent: "              "))
          ]:
              connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=10)
              try:
                  connection.connect()
                  if server in ("good", "wrong-pin") and connection.sock.getpeercert(True) != pinned:
                      raise ssl.SSLError("not the pinned certificate")
                  connection.request("GET", "/", headers={"User-Agent": "python"})
                  print(server, "accepted", connection.getresponse().status)
              except OSError as error:
                  print(server, "refused", error)
              connection.close()

      ### A loop for Go

      With Go 1.19 or later. Go takes keys of 1024 bits: the report needs `--may-accept weak-key`.

          package main

          import (
              "bytes"
              "crypto/tls"
              "crypto/x509"
              "encoding/pem"
              "errors"
              "fmt"
              "log"
              "net/http"
              "os"
          )

          func main() {
              authority, err := os.ReadFile(\(guide.literal("ca.crt")))
              if err != nil {
                  log.Fatal(err)
              }
              roots := x509.NewCertPool()
              roots.AppendCertsFromPEM(authority)
              server, err := os.ReadFile(\(guide.literal("server.crt")))
              if err != nil {
                  log.Fatal(err)
              }
              pinned, _ := pem.Decode(server)
              list, err := os.ReadFile(\(guide.literal(DemoBadServers.listName)))
              if err != nil {
                  log.Fatal(err)
              }
              block, _ := pem.Decode(list)
              revoked, err := x509.ParseRevocationList(block.Bytes)
              if err != nil {
                  log.Fatal(err)
              }
              for _, server := range []struct {
                  name string
                  port int
              }{
      \(pairs("{", "}", indent: "            "))
              } {
                  config := &tls.Config{RootCAs: roots, VerifyConnection: func(state tls.ConnectionState) error {
                      leaf := state.PeerCertificates[0]
                      isPinned := server.name == "good" || server.name == "wrong-pin"
                      if isPinned && !bytes.Equal(leaf.Raw, pinned.Bytes) {
                          return errors.New("not the pinned certificate")
                      }
                      for _, entry := range revoked.RevokedCertificates {
                          if entry.SerialNumber.Cmp(leaf.SerialNumber) == 0 {
                              return errors.New("a revoked certificate")
                          }
                      }
                      return nil
                  }}
                  client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
                  response, err := client.Get(fmt.Sprintf("https://localhost:%d/", server.port))
                  if err != nil {
                      fmt.Println(server.name, "refused", err)
                      continue
                  }
                  response.Body.Close()
                  fmt.Println(server.name, "accepted", response.StatusCode)
              }
          }

      ### A loop for Node.js

          import { readFileSync } from "node:fs";
          import https from "node:https";
          import { X509Certificate } from "node:crypto";
          import { checkServerIdentity } from "node:tls";

          const ca = readFileSync(\(guide.literal("ca.crt")));
          const crl = readFileSync(\(guide.literal(DemoBadServers.listName)));
          const pinned = new X509Certificate(readFileSync(\(guide.literal("server.crt")))).fingerprint256;
          for (const [server, port] of [
      \(pairs("[", "]", indent: "            "))
          ]) {
            const options = {
              ca,
              crl: ["good", "revoked"].includes(server) ? crl : undefined,
              agent: false,
              headers: { "User-Agent": "node" },
              checkServerIdentity: (host, certificate) =>
                checkServerIdentity(host, certificate) ??
                (["good", "wrong-pin"].includes(server) && certificate.fingerprint256 !== pinned
                  ? new Error("not the pinned certificate")
                  : undefined),
            };
            await new Promise((done) => {
              https
                .get(`https://localhost:${port}/`, options, (response) => {
                  console.log(server, "accepted", response.statusCode);
                  response.resume().on("end", done);
                })
                .on("error", (error) => {
                  console.log(server, "refused", error.message);
                  done();
                });
            });
          }


      """
  }
}
