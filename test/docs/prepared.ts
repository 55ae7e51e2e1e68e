import { randomBytes } from 'node:crypto'
import { copyFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { withAdmin } from '../../src/cli/context.ts'
import { putProvider } from '../../src/gateway/admin/catalog.ts'
import { setWebhook } from '../../src/gateway/admin/webhook.ts'
import { createAuthority } from '../support/certificates.ts'
import { startSqliteBench } from '../support/cli-state.ts'
import { startLarkway } from '../support/larkway.ts'

/** Makes what a reader has, in the folder where a block of a page runs. @returns variables for it */
type Preparation = (t: Test, cwd: string, data: string) => Promise<Readonly<Record<string, string>>>

const TLS_HOST = 'voice.example.com'

/** A provider and a webhook that are sealed with the key that is to go. */
async function sealed(t: Test) {
  const [OLD = '', NEW = ''] = [1, 2].map(() => randomBytes(32).toString('base64'))
  const bench = await startSqliteBench(t)
  await withAdmin(bench.desk, { command: 'test' }, async ({ actor, admin }) => {
    const context = { ...admin, webhooks: { secretKeys: [Buffer.from(OLD, 'base64')], insecure: false } }
    const fields = { kind: 'openai', credential: 'sk-of-acme' }
    await putProvider(actor, { workspace: 'acme', name: 'acme.openai', fields }, context)
    await setWebhook(actor, { workspace: 'acme', url: 'https://hooks.example.com/1' }, context)
  })
  return { OLD, NEW, LARKWAY_CONFIG: bench.config, LARKWAY_DATA: bench.folder }
}

/** By a command of the block. */
export const PREPARATIONS: Readonly<Record<string, Preparation>> = {
  'larkway secrets rotate': sealed,
  async 'larkway backup'(t, _, LARKWAY_DATA) {
    await startLarkway(t, { env: { LARKWAY_DATA } })
    return {}
  },
  async 'cp state.sqlite.format'(_, __, data) {
    copyFileSync(join(data, 'state.sqlite'), join(data, 'state.sqlite.format-14'))
    return {}
  },
  async LARKWAY_TLS_CERT(_, cwd) {
    const authority = createAuthority()
    const { cert, key } = authority.issue([TLS_HOST])
    const files = { 'ca.pem': authority.cert, 'fullchain.pem': cert, 'privkey.pem': key }
    for (const [name, text] of Object.entries(files)) writeFileSync(join(cwd, name), text)
    return {}
  },
}

/** A command with the address of a page's TLS, as it is here. */
export function overTls(command: string, tlsPort: unknown): string {
  const target = `https://${TLS_HOST}:8443`
  const options = `--cacert ca.pem --connect-to ${TLS_HOST}:8443:127.0.0.1:${tlsPort}`
  return command.replaceAll(target, `${options} ${target}`)
}
