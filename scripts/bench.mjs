import { main } from './install.mjs'
import { prepare, run } from './runtime.mjs'

// `npm run bench`.
await main(async () => run(await prepare(), 'bench/run.ts', process.argv.slice(2), { ownGroup: false }))
