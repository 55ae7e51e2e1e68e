import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Webhook } from 'standardwebhooks'
import { type Teardown, tempFolder } from './scratch.ts'
import type { Delivery } from './webhook-receiver.ts'

const run = promisify(execFile)
/** Files in one command line. */
const BATCH = 1_000

/**
 * HMAC-SHA256 by OpenSSL's command, lower-case hex, in the order of the texts.
 *
 * @param key text, or `hexkey:` and hex
 */
export async function opensslHmac(t: Teardown, key: string, texts: readonly string[]): Promise<string[]> {
  const folder = await tempFolder(t)
  const option = key.startsWith('hexkey:') ? key : `key:${key}`
  const digests: string[] = []
  for (let at = 0; at < texts.length; at += BATCH) {
    const names = texts.slice(at, at + BATCH).map((_, index) => String(at + index))
    await Promise.all(names.map((name) => writeFile(join(folder, name), texts[Number(name)] ?? '')))
    const args = ['dgst', '-sha256', '-mac', 'HMAC', '-macopt', option, '-r', ...names]
    const { stdout } = await run('openssl', args, { cwd: folder, maxBuffer: 1 << 24 })
    digests.push(
      ...stdout
        .trim()
        .split('\n')
        .map((line) => line.slice(0, 64)),
    )
  }
  return digests
}

/** What `X-LK-Webhook-Signature` signs. */
export const signedText = ({ headers, body }: Delivery) => `${headers['x-lk-webhook-ts']}.${body}`

/** Deliveries whose `X-LK-Webhook-Signature` is not what OpenSSL makes of the secret. */
export async function forged(
  t: Teardown,
  secret: string,
  deliveries: readonly Delivery[],
): Promise<readonly Delivery[]> {
  const expected = await opensslHmac(t, secret, deliveries.map(signedText))
  return deliveries.filter(({ headers }, index) => headers['x-lk-webhook-signature'] !== expected[index])
}

/** Whether the library that receivers use takes it. */
export function isVerified(secret: string, { headers, body }: Pick<Delivery, 'headers' | 'body'>): boolean {
  try {
    new Webhook(secret).verify(body, headers)
    return true
  } catch {
    return false
  }
}
