import { main } from './install.mjs'
import { prepare, run } from './runtime.mjs'

// `npm start`: the server.
await main(async () => run(await prepare(), 'src/main.ts', process.argv.slice(2), { ownGroup: true }))
