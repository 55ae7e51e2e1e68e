// Mixed traffic on two nodes for hours, one of which is killed every ten minutes: `npm run soak -- --hours 24`. Writes
// what was measured, and the page of the manual with it. Plain JavaScript for Node 18 and newer.

import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { capture, main, ROOT, Unusable } from './install.mjs'
import { prepare } from './runtime.mjs'

/** The books are waited for after the last call. */
const SETTLED_MS = 900_000
const RESULT = join(ROOT, 'bench', 'soak.json')

async function soak() {
  const { values } = parseArgs({ options: { hours: { type: 'string' }, minutes: { type: 'string' } } })
  const minutes = values.minutes === undefined ? Number(values.hours ?? 2) * 60 : Number(values.minutes)
  if (!(minutes >= 1)) throw new Unusable('soak takes --hours N or --minutes N')
  const commit = (await capture('git', ['rev-parse', '--short=12', 'HEAD'], { cwd: ROOT })).trim()
  const env = {
    ...process.env,
    LARKWAY_TEST_FILE_MS: String(minutes * 60_000 + SETTLED_MS),
    LARKWAY_TEST_SOAK_MINUTES: String(minutes),
    LARKWAY_TEST_SOAK_RESULT: RESULT,
  }
  const args = [join(ROOT, 'scripts', 'test.mjs'), 'test/faults/soak.alone.long.test.ts']
  const child = spawn(process.execPath, args, { cwd: ROOT, env, stdio: 'inherit' })
  const code = await new Promise((resolve) => child.on('exit', resolve))
  if (code !== 0) throw new Unusable('the soak has found a fault')
  const found = { commit, at: new Date().toISOString(), ...JSON.parse(readFileSync(RESULT, 'utf8')) }
  writeFileSync(RESULT, `${JSON.stringify(found, null, 1)}\n`)
  await capture(await prepare(), [join(ROOT, 'bench', 'report.ts')], { cwd: ROOT })
}

await main(soak)
