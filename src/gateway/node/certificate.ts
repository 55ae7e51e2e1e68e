import { createPrivateKey, hash, type KeyObject, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { errorMessage, type Logger } from '../../contracts/log.ts'
import { oneAtATime } from '../../contracts/one-at-a-time.ts'
import type { Clock } from '../../contracts/time.ts'
import type { CertificateFiles } from '../edge/apps.ts'
import type { Environment } from './config.ts'

const DAY_MS = 86_400_000
/** A certificate is renewed earlier than that; half of the renewals of one of 90 days have failed by then. */
const SOON_MS = 14 * DAY_MS
/** For a certificate made for a few days, the limit is this part of its life. */
const SOON_PART = 1 / 4
/** Kinds of keys that every client knows. */
const KEY_KINDS: readonly (string | undefined)[] = ['rsa', 'ec']
/** How often the files are read again because they were being written. */
const READS_MAX = 3

export interface ServerCertificate {
  readonly notBeforeMs: number
  readonly notAfterMs: number
  /** Tells one content of the files from another. */
  readonly hash: string
}

/** The files that the environment names; undefined: it asks for no TLS. */
export function certificateFiles({
  LARKWAY_TLS_CERT: certFile,
  LARKWAY_TLS_KEY: keyFile,
}: Environment): CertificateFiles | undefined {
  return certFile === undefined || keyFile === undefined ? undefined : { certFile, keyFile }
}

/**
 * Reads a certificate and its key, and checks that they belong together.
 *
 * @throws Error that names the variable and what is wrong with its file, and shows nothing of either
 */
export async function readCertificate({ certFile, keyFile }: CertificateFiles): Promise<ServerCertificate> {
  const [cert, key] = await Promise.all([
    readText('LARKWAY_TLS_CERT', certFile),
    readText('LARKWAY_TLS_KEY', keyFile),
  ])
  const certificate = parsedCertificate(cert)
  const privateKey = parsedKey(key)
  if (!KEY_KINDS.includes(privateKey.asymmetricKeyType))
    throw new Error('LARKWAY_TLS_KEY: the key must be RSA or ECDSA, which every client knows')
  if (!certificate.checkPrivateKey(privateKey))
    throw new Error('LARKWAY_TLS_KEY is not the key of the first certificate in LARKWAY_TLS_CERT')
  return {
    notBeforeMs: Date.parse(certificate.validFrom),
    notAfterMs: Date.parse(certificate.validTo),
    hash: hash('sha256', JSON.stringify([cert, key])),
  }
}

async function readText(name: string, path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unreadable'
    throw new Error(`${name}: the file cannot be read (${code})`)
  }
}

function parsedCertificate(pem: string): X509Certificate {
  try {
    return new X509Certificate(pem)
  } catch {
    throw new Error('LARKWAY_TLS_CERT: the file holds no certificate in PEM')
  }
}

function parsedKey(pem: string): KeyObject {
  // Node would take a passphrase; that one lay beside the key, in the environment, so it would protect nothing.
  if (pem.includes('ENCRYPTED'))
    throw new Error('LARKWAY_TLS_KEY: the key has a passphrase; take it off with `openssl pkey -in … -out …`')
  try {
    return createPrivateKey(pem)
  } catch {
    throw new Error('LARKWAY_TLS_KEY: the file holds no private key in PEM')
  }
}

type Dates = Pick<ServerCertificate, 'notBeforeMs' | 'notAfterMs'>

/** Whether clients take the certificate now, as far as its dates are concerned. */
export const isInForce = ({ notBeforeMs, notAfterMs }: Dates, nowMs: number): boolean =>
  nowMs >= notBeforeMs && nowMs < notAfterMs

/** Describes a current or near problem with the dates of a certificate; null: there is none. */
export function dateRemark({ notBeforeMs, notAfterMs }: Dates, nowMs: number): string | null {
  if (nowMs < notBeforeMs) return 'the TLS certificate is not valid yet'
  if (nowMs >= notAfterMs) return 'the TLS certificate has expired'
  const soonMs = Math.min(SOON_MS, (notAfterMs - notBeforeMs) * SOON_PART)
  return notAfterMs - nowMs < soonMs ? 'the TLS certificate expires soon' : null
}

/** The certificate in force, and how it is renewed. */
export interface WatchedCertificate {
  readonly files: CertificateFiles
  readonly current: () => ServerCertificate
  /** Reads the files again. Never rejects: what cannot be used is logged, and the certificate in force stays. */
  renew(): Promise<void>
}

/**
 * Opens the certificate that the environment names, if any.
 *
 * @param apply has connections from now on get what the files hold; throws where that cannot be used
 * @throws Error that names the variable and what is wrong with its file
 */
export async function openCertificate(
  files: CertificateFiles,
  { log, clock }: { readonly log: Logger; readonly clock: Clock },
  apply: () => void,
): Promise<WatchedCertificate> {
  let current = await readCertificate(files)
  warnOfDates(current, clock.wallNow(), log)

  async function renew(): Promise<void> {
    try {
      const renewed = await replaced()
      const expires_at = new Date(current.notAfterMs).toISOString()
      log.info({ changed: renewed, expires_at }, 'TLS certificate read')
      warnOfDates(current, clock.wallNow(), log)
    } catch (error) {
      log.error({ reason: errorMessage(error) }, 'TLS certificate refused, the old one stays')
    }
  }

  /** uWS reads the checked files again: files that change in between are checked anew. */
  async function replaced(): Promise<boolean> {
    const { hash: before } = current
    for (let reads = 0; reads < READS_MAX; reads++) {
      const read = await readCertificate(files)
      if (read.hash === current.hash) break
      apply()
      current = read
    }
    return current.hash !== before
  }

  return { files, current: () => current, renew: oneAtATime(renew) }
}

function warnOfDates(certificate: ServerCertificate, nowMs: number, log: Logger): void {
  const remark = dateRemark(certificate, nowMs)
  const expires_at = new Date(certificate.notAfterMs).toISOString()
  if (remark !== null) log.warn({ expires_at, reason: remark }, 'look after the TLS certificate')
}
