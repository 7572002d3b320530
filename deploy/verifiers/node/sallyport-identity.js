// Verifies who a client is, as a sallyport proxy with "client_identity signed;" has signed it (RFC 9421).
//
//     const { sallyportIdentity } = require('./sallyport-identity');
//     app.use(sallyportIdentity('http://127.0.0.1:8081/keys'));
//
// A handler of Express, Connect or node:http: request.sallyportCertificate is then an X509Certificate, null for a client
// without one. Any other request gets 403. A nonce counts once in a process: several processes need a shared store, given as
// options.seen(nonce, until), which returns whether the nonce is known, or a promise of it.
'use strict';
const crypto = require('node:crypto');

// Exactly what the proxy writes: one label, these parameters, this order. A second signature doesn't match.
const INPUT = new RegExp('^client=(\\(("[!-~]+"(?: "[!-~]+")*)\\);created=([0-9]{1,12});expires=([0-9]{1,12})'
  + ';nonce="([0-9a-f]{32})";keyid="([A-Za-z0-9_-]{43})";alg="(ed25519|ecdsa-p256-sha256)";tag="client-identity")$');
const SIGNATURE = /^client=:([A-Za-z0-9+/]+={0,2}):$/;
const ALWAYS = ['"@method"', '"@authority"', '"@path"', '"@query"'];
const LIFETIME = 60, SKEW = 5, REFETCH = 10;

class Refused extends Error {}
function nonces() {
  let known = new Map(), pruned = 0;
  return (nonce, until) => {
    const now = Date.now() / 1000;
    if (now - pruned > LIFETIME) {
      [pruned, known] = [now, new Map([...known].filter(([, end]) => end > now))];
    }
    const isKnown = known.has(nonce);
    known.set(nonce, until);
    return isKnown;
  };
}

function keysAt(url) {
  let keys = new Map(), fetched = -Infinity;
  return async (name) => {
    if (!keys.has(name) && performance.now() / 1000 - fetched > REFETCH) {
      fetched = performance.now() / 1000;
      const answer = await fetch(url, { signal: AbortSignal.timeout(5000), redirect: 'error' });
      if (!answer.ok) throw new Refused('the keys are not there');
      keys = new Map((await answer.json()).keys.map((key) => [key.kid, key]));
    }
    if (!keys.has(name)) throw new Refused('the key is unknown');
    return keys.get(name);
  };
}

// All lines of a field: request.headers drops some of a repeated field.
function field(request, name) {
  const isOfName = (at) => at % 2 === 1 && request.rawHeaders[at - 1].toLowerCase() === name;
  const values = request.rawHeaders.filter((text, at) => isOfName(at));
  return values.length ? values.map((text) => text.trim()).join(', ') : null;
}

async function verify(request, keyFor, seen) {
  const given = INPUT.exec(field(request, 'signature-input') ?? '');
  const signature = SIGNATURE.exec(field(request, 'signature') ?? '');
  const target = request.originalUrl ?? request.url;
  if (!given || !signature || !target.startsWith('/')) throw new Refused('no signature of the proxy');
  const [, parameters, listed, created, expires, nonce, name, algorithm] = given;
  const components = listed.split(' '), now = Date.now() / 1000;
  const isWhole = ALWAYS.every((one, at) => components[at] === one) && new Set(components).size === components.length;
  if (!isWhole) throw new Refused('it covers another request');
  for (const told of ['client-cert', 'client-cert-chain']) {
    if ((field(request, told) !== null) !== components.includes(`"${told}"`)) throw new Refused(`${told} is not signed`);
  }
  if (+created > now + SKEW || +created < now - LIFETIME - SKEW || +expires < now - SKEW) throw new Refused('too old');
  const host = (field(request, 'host') ?? '').toLowerCase().replace(request.socket.encrypted ? /:443$/ : /:80$/, '');
  const mark = target.indexOf('?');
  const values = [request.method, host, mark < 0 ? target : target.slice(0, mark), mark < 0 ? '?' : target.slice(mark)];
  for (const component of components.slice(4)) values.push(component[1] === '@' ? null : field(request, component.slice(1, -1)));
  if (values.includes(null)) throw new Refused('it covers what the request lacks');
  const lines = components.map((component, at) => `${component}: ${values[at]}`);
  const text = Buffer.from([...lines, `"@signature-params": ${parameters}`].join('\n'), 'latin1');
  const { kty, crv, x, y } = await keyFor(name);
  const isOfKey = algorithm === 'ed25519' ? kty === 'OKP' && crv === 'Ed25519' : kty === 'EC' && crv === 'P-256';
  if (!isOfKey) throw new Refused('the key is of another algorithm');
  const key = crypto.createPublicKey({ key: y === undefined ? { kty, crv, x } : { kty, crv, x, y }, format: 'jwk' });
  const hash = algorithm === 'ed25519' ? null : 'sha256';
  const isAuthentic = crypto.verify(hash, text, { key, dsaEncoding: 'ieee-p1363' }, Buffer.from(signature[1], 'base64'));
  if (!isAuthentic) throw new Refused('not authentic');
  // Last, so that nobody uses up the nonce of a request that is still to come.
  if (await seen(nonce, now + 2 * (LIFETIME + SKEW))) throw new Refused('sent again');
  const certificate = components.includes('"client-cert"') ? field(request, 'client-cert').slice(1, -1) : null;
  return certificate === null ? null : new crypto.X509Certificate(Buffer.from(certificate, 'base64'));
}

function sallyportIdentity(url, { seen = nonces() } = {}) {
  const keyFor = keysAt(url);
  return (request, response, next) => verify(request, keyFor, seen).then((certificate) => {
    request.sallyportCertificate = certificate;
    next();
  }, (reason) => {
    console.error(`refused by sallyport-identity: ${reason.message}`);
    response.writeHead(403, { 'Content-Type': 'text/plain' }).end('This request does not come from the proxy.\n');
  });
}

module.exports = { sallyportIdentity };
