import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'

/** Keys that fit in the cache of a table, and more that do not fit in its file. */
const FEW = 10_000
const MORE = 70_000

t.test('keys that the disk has no room for are kept in memory, and revoked in it', async (t) => {
  const program = `
    import { KnownKeys } from '${new URL('../../../src/gateway/catalog/known-keys.ts', import.meta.url)}'
    import { systemClock } from '${new URL('../../../src/contracts/time.ts', import.meta.url)}'
    import { storedKey } from '${new URL('../../support/stored-key.ts', import.meta.url)}'
    const few = Array.from({ length: ${FEW} }, () => storedKey())
    const more = Array.from({ length: ${MORE} }, () => storedKey())
    let all = few
    let version = '1'
    let isAway = false
    const state = {
      version: async () => version,
      async page() {
        if (isAway) throw new Error('the state is away')
        return { keys: all, next: null, total: all.length }
      },
      changes: async () => ({ keys: [revoked, ...more], version }),
    }
    const known = new KnownKeys(state, systemClock)
    const count = () => [few, more].map((keys) => keys.filter(({ sha256 }) => known.find(sha256)).length)
    await known.read()
    console.log(...count())
    const revoked = { ...few[0], revokedAtMs: Date.now() }
    all = [revoked, ...few.slice(1), ...more]
    version = '2'
    isAway = true
    await known.read().catch(({ message }) => console.log(message))
    isAway = false
    await known.read()
    console.log(...count(), known.version)
    const later = new KnownKeys(state, systemClock)
    await later.read()
    console.log(later.size)
  `
  // No file of the process may grow beyond 1 or 2 MiB: the blocks of a shell have 512 or 1024 bytes.
  const shell = ['-c', `ulimit -f 2048 && exec ${process.execPath} "$@"`, 'sh']
  const args = [...shell, '--no-warnings', '--input-type=module', '--eval', program]
  const { stdout } = await promisify(execFile)('sh', args, { timeout: 120_000 })
  t.same(stdout.split('\n'), [
    `${FEW} 0`,
    'the state is away',
    `${FEW - 1} ${MORE} 2`,
    String(FEW + MORE),
    '',
  ])
})
