import { join } from 'node:path'
import { main, ROOT } from './install.mjs'
import { prepare, run } from './runtime.mjs'

// `npm run check:contracts -- FOLDER`: holds the adapters to OpenAPI files of vendors, which the user puts there.
await main(async () =>
  run(await prepare(), { file: join(ROOT, 'test', 'contracts', 'run.ts') }, process.argv.slice(2), {
    ownGroup: false,
  }),
)
