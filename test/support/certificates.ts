import { generateKeyPairSync, type KeyObject, randomBytes, randomUUID, sign } from 'node:crypto'

/** A certificate and its key, PEM. */
export interface Certificate {
  readonly cert: string
  readonly key: string
}

export interface Authority {
  readonly name: string
  readonly cert: string
  /** Signs a certificate for host names. */
  issue(names: readonly string[], valid?: Validity): Certificate
}

export interface Validity {
  readonly from: Date
  readonly to: Date
}

const DAY_MS = 86_400_000

const thisWeek = (): Validity => ({
  from: new Date(Date.now() - DAY_MS),
  to: new Date(Date.now() + 6 * DAY_MS),
})

/**
 * A certificate authority of the test's own. Certificates are put together here (RFC 5280, section 4.1): Node makes
 * none, and so neither a program that may be missing nor a key in the repository is needed. Its name is its own, since
 * OpenSSL looks for an issuer by name alone, and files of tests that share a process also share what it trusts.
 */
export function createAuthority(name = `Test Authority ${randomUUID()}`): Authority {
  const { publicKey, privateKey } = keyPair()
  const ca = { name, publicKey, names: [], isAuthority: true, valid: thisWeek() }
  return {
    name,
    cert: certificate(ca, { name, privateKey }),
    issue(names, valid = thisWeek()) {
      const own = keyPair()
      const host = { name: names[0]!, publicKey: own.publicKey, names, isAuthority: false, valid }
      return { cert: certificate(host, { name, privateKey }), key: pem(own.privateKey) }
    },
  }
}

/** A certificate that vouches for itself. */
export function selfSigned(names: readonly string[]): Certificate {
  const { publicKey, privateKey } = keyPair()
  const name = names[0]!
  const subject = { name, publicKey, names, isAuthority: false, valid: thisWeek() }
  return { cert: certificate(subject, { name, privateKey }), key: pem(privateKey) }
}

const keyPair = () => generateKeyPairSync('ec', { namedCurve: 'P-256' })
const pem = (key: KeyObject) => key.export({ type: 'pkcs8', format: 'pem' }).toString()

interface Subject {
  readonly name: string
  readonly publicKey: KeyObject
  readonly names: readonly string[]
  readonly isAuthority: boolean
  readonly valid: Validity
}

/** Tags of DER. */
const BOOLEAN = 0x01
const INTEGER = 0x02
const BIT_STRING = 0x03
const OCTET_STRING = 0x04
const OBJECT_ID = 0x06
const UTF8_STRING = 0x0c
const GENERALIZED_TIME = 0x18
const SEQUENCE = 0x30
const SET = 0x31
const VERSION = 0xa0
const EXTENSIONS = 0xa3
const DNS_NAME = 0x82

const ECDSA_WITH_SHA256 = '2a8648ce3d040302'
const COMMON_NAME = '550403'
const BASIC_CONSTRAINTS = '551d13'
const SUBJECT_ALT_NAME = '551d11'

function certificate(subject: Subject, issuer: { name: string; privateKey: KeyObject }): string {
  const algorithm = der(SEQUENCE, objectId(ECDSA_WITH_SHA256))
  const signed = der(
    SEQUENCE,
    der(VERSION, der(INTEGER, Buffer.from([2]))),
    // The first bit would make it a negative number.
    der(INTEGER, Buffer.concat([Buffer.from([1]), randomBytes(15)])),
    algorithm,
    commonName(issuer.name),
    der(SEQUENCE, time(subject.valid.from), time(subject.valid.to)),
    commonName(subject.name),
    subject.publicKey.export({ type: 'spki', format: 'der' }),
    der(EXTENSIONS, der(SEQUENCE, ...extensions(subject))),
  )
  const signature = Buffer.concat([Buffer.from([0]), sign('sha256', signed, issuer.privateKey)])
  const base64 = der(SEQUENCE, signed, algorithm, der(BIT_STRING, signature)).toString('base64')
  const lines = base64.match(/.{1,64}/g)!.join('\n')
  return `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`
}

function extensions({ isAuthority, names }: Subject): Buffer[] {
  const yes = der(BOOLEAN, Buffer.from([0xff]))
  const constraints = der(OCTET_STRING, isAuthority ? der(SEQUENCE, yes) : der(SEQUENCE))
  const basic = der(SEQUENCE, objectId(BASIC_CONSTRAINTS), yes, constraints)
  if (names.length === 0) return [basic]
  const altNames = der(SEQUENCE, ...names.map((name) => der(DNS_NAME, Buffer.from(name))))
  return [basic, der(SEQUENCE, objectId(SUBJECT_ALT_NAME), der(OCTET_STRING, altNames))]
}

function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts)
  const length = content.length
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...size]), content])
}

const objectId = (hex: string) => der(OBJECT_ID, Buffer.from(hex, 'hex'))

const commonName = (name: string) =>
  der(SEQUENCE, der(SET, der(SEQUENCE, objectId(COMMON_NAME), der(UTF8_STRING, Buffer.from(name)))))

/** As YYYYMMDDHHMMSSZ. Of years before 2050, too, which OpenSSL takes. */
const time = (at: Date) =>
  der(GENERALIZED_TIME, Buffer.from(`${at.toISOString().slice(0, 19).replace(/[-:T]/g, '')}Z`))
