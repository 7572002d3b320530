/// `openssl.cnf` of an authority, with which `openssl ca -config` works on its directory.
struct OpenSSLConfiguration {
  let text: String

  /// `folder`: an absolute path.
  init(_ folder: String) throws(AuthorityError) {
    guard folder.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }), folder.last != " " else {
      throw AuthorityError(
        "\"\(folder)\": a folder with a control character, or a space at its end, can't be named to OpenSSL")
    }
    let special: Set<Character> = ["\\", "$", "#", "\"", "'", "`", ";"]
    let name = folder.reduce(into: "") { name, character in
      if special.contains(character) { name.append("\\") }
      name.append(character)
    }
    text = """
      # For `openssl ca -config` on this folder, which `sallyport ca` keeps. OpenSSL takes no lock, so take it first:
      #   flock lock openssl ca -config openssl.cnf -in request.pem -notext -out new.crt
      #   flock lock openssl ca -config openssl.cnf -revoke certs/SERIAL.pem
      #   flock lock openssl ca -config openssl.cnf -gencrl -out crl.pem

      [ ca ]
      default_ca = authority

      [ authority ]
      dir              = \(name)
      certificate      = $dir/ca.crt
      private_key      = $dir/private/ca.key
      database         = $dir/index.txt
      new_certs_dir    = $dir/certs
      serial           = $dir/serial
      rand_serial      = yes
      crlnumber        = $dir/crlnumber
      crl              = $dir/crl.pem
      default_md       = sha256
      default_days     = \(CertificateProfile.clientDays)
      default_crl_days = \(AuthorityStore.listDays)
      unique_subject   = no
      email_in_dn      = no
      copy_extensions  = none
      policy           = policy
      x509_extensions  = client
      crl_extensions   = list

      [ policy ]
      commonName             = supplied
      countryName            = optional
      stateOrProvinceName    = optional
      localityName           = optional
      organizationName       = optional
      organizationalUnitName = optional
      emailAddress           = optional

      [ client ]
      basicConstraints       = critical, CA:FALSE
      keyUsage               = critical, digitalSignature, keyEncipherment
      extendedKeyUsage       = clientAuth
      subjectKeyIdentifier   = hash
      authorityKeyIdentifier = keyid:always

      # With -extensions server; the names come from the command: -extfile, or copy_extensions = copy.
      [ server ]
      basicConstraints       = critical, CA:FALSE
      keyUsage               = critical, digitalSignature, keyEncipherment
      extendedKeyUsage       = serverAuth
      subjectKeyIdentifier   = hash
      authorityKeyIdentifier = keyid:always

      [ list ]
      authorityKeyIdentifier = keyid:always

      """
  }
}
