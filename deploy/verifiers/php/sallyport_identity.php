<?php
// Verifies who a client is, as a sallyport proxy with "client_identity signed;" has signed it (RFC 9421).
//
//     require 'sallyport_identity.php';
//     $certificate = sallyport_identity('http://127.0.0.1:8081/keys', '/var/lib/myapp/identity');
//
// returns the DER of the client's verified certificate, or null for a client without one. Any other request ends with 403.
// The folder, which only this program may write, keeps the keys and each nonce that was seen: all processes share them.
// Needs the extensions sodium, for keys of Ed25519, and openssl, for those of P-256.
declare(strict_types=1);

final class SallyportIdentityRefused extends RuntimeException {}

function sallyport_identity(string $keysUrl, string $folder): ?string
{
    try {
        return sallyport_identity_verify($_SERVER, $keysUrl, $folder);
    } catch (Throwable $reason) {
        error_log('refused by sallyport_identity: ' . $reason->getMessage());
        http_response_code(403);
        exit("This request does not come from the proxy.\n");
    }
}

function sallyport_identity_verify(array $server, string $keysUrl, string $folder): ?string
{
    // Exactly what the proxy writes: one label, these parameters, this order. A second signature doesn't match.
    $input = '~^client=(\((("[!-\~]+")( (?3))*)\);created=([0-9]{1,12});expires=([0-9]{1,12});nonce="([0-9a-f]{32})"'
        . ';keyid="([A-Za-z0-9_-]{43})";alg="(ed25519|ecdsa-p256-sha256)";tag="client-identity")$~D';
    $field = function (string $name) use ($server): ?string {
        $name = strtoupper(strtr($name, '-', '_'));
        return $server[in_array($name, ['CONTENT_TYPE', 'CONTENT_LENGTH'], true) ? $name : "HTTP_$name"] ?? null;
    };
    $target = $server['REQUEST_URI'];
    if (!preg_match($input, $field('signature-input') ?? '', $given)
        || !preg_match('~^client=:([A-Za-z0-9+/]+={0,2}):$~D', $field('signature') ?? '', $signature)
        || $target[0] !== '/') {
        throw new SallyportIdentityRefused('no signature of the proxy');
    }
    [, $parameters, $listed, , , $created, $expires, $nonce, $name, $algorithm] = $given;
    $components = explode(' ', $listed);
    $now = time();
    if (array_slice($components, 0, 4) !== ['"@method"', '"@authority"', '"@path"', '"@query"']
        || count(array_unique($components)) !== count($components)) {
        throw new SallyportIdentityRefused('it covers another request');
    }
    foreach (['client-cert', 'client-cert-chain'] as $told) {
        if (($field($told) !== null) !== in_array("\"$told\"", $components, true)) {
            throw new SallyportIdentityRefused("$told is not signed");
        }
    }
    if ((int) $created > $now + 5 || (int) $created < $now - 65 || (int) $expires < $now - 5) {
        throw new SallyportIdentityRefused('too old, or of the future');
    }
    $port = empty($server['HTTPS']) || $server['HTTPS'] === 'off' ? '80' : '443';
    [$path, $query] = explode('?', $target, 2) + [1 => ''];
    $values = [$server['REQUEST_METHOD'], preg_replace("~:$port\$~D", '', strtolower($field('host') ?? '')), $path, "?$query"];
    $text = '';
    foreach ($components as $at => $component) {
        $value = $values[$at] ?? ($component[1] === '@' ? null : $field(substr($component, 1, -1)));
        if ($value === null) {
            throw new SallyportIdentityRefused("it lacks $component");
        }
        $text .= "$component: $value\n";
    }
    $text .= "\"@signature-params\": $parameters";
    $key = sallyport_identity_key($name, $keysUrl, "$folder/keys.json");
    if (!sallyport_identity_matches($key, $algorithm, base64_decode($signature[1]), $text)) {
        throw new SallyportIdentityRefused('not authentic');
    }
    // Last, so that nobody uses up the nonce of a request that is still to come. Creating the file is the test.
    foreach (random_int(0, 99) === 0 ? glob("$folder/nonce-*") : [] as $file) {
        @filemtime($file) < $now - 300 && @unlink($file);
    }
    if (($file = @fopen("$folder/nonce-$nonce", 'x')) === false) {
        throw new SallyportIdentityRefused('sent again, or the folder can not be written');
    }
    fclose($file);
    return in_array('"client-cert"', $components, true) ? base64_decode(trim($field('client-cert'), ':')) : null;
}

function sallyport_identity_key(string $name, string $url, string $file): array
{
    $find = fn () => array_column(json_decode((string) @file_get_contents($file), true)['keys'] ?? [], null, 'kid')[$name] ?? null;
    $key = $find();
    if ($key === null && time() - (int) @filemtime($file) > 10) {
        touch($file);
        file_put_contents("$file.new", file_get_contents($url, false, stream_context_create(['http' => ['timeout' => 5]])));
        rename("$file.new", $file);
        $key = $find();
    }
    return $key ?? throw new SallyportIdentityRefused('the key is unknown');
}

function sallyport_identity_matches(array $key, string $algorithm, string $signature, string $text): bool
{
    $number = fn (string $member) => base64_decode(strtr($key[$member], '-_', '+/'));
    if ([$key['kty'], $key['crv'], $algorithm] === ['OKP', 'Ed25519', 'ed25519']) {
        return strlen($signature) === 64 && sodium_crypto_sign_verify_detached($signature, $text, $number('x'));
    }
    if ([$key['kty'], $key['crv'], $algorithm, strlen($signature)] !== ['EC', 'P-256', 'ecdsa-p256-sha256', 64]) {
        return false;
    }
    $prefix = hex2bin('3059301306072a8648ce3d020106082a8648ce3d03010703420004');
    $pem = "-----BEGIN PUBLIC KEY-----\n" . base64_encode($prefix . $number('x') . $number('y')) . "\n-----END PUBLIC KEY-----\n";
    // OpenSSL wants two DER integers in a sequence: without zeros in front, unless the first bit is set.
    $integer = function (string $half): string {
        $half = ltrim($half, "\0");
        $half = $half === '' || ord($half[0]) > 127 ? "\0$half" : $half;
        return "\2" . chr(strlen($half)) . $half;
    };
    $pair = $integer(substr($signature, 0, 32)) . $integer(substr($signature, 32));
    return openssl_verify($text, "\x30" . chr(strlen($pair)) . $pair, $pem, OPENSSL_ALGO_SHA256) === 1;
}
