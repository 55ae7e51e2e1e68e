import { join } from 'node:path'
import { main, ROOT } from './install.mjs'
import { prepare, run } from './runtime.mjs'

// `npm run bench`.
await main(async () =>
  run(await prepare(), { file: join(ROOT, 'bench', 'run.ts') }, process.argv.slice(2), { ownGroup: false }),
)
