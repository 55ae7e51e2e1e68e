/** Rooms of `src/gateway/`, by their paths in `src/`. */
const gateway = (names: string) => names.split(' ').map((name) => `gateway/${name}`)

/** Rooms of `src/`, layer by layer. Imports point down this list or stay in their room. Never up, never sideways. */
export const LAYERS: readonly (readonly string[])[] = [
  ['main', 'cli', ...gateway('node')],
  ['console'],
  gateway('api'),
  gateway('admin observe/alerts'),
  gateway('jobs webhooks live long'),
  // Its entry, and what stands on all of it: the pipeline and who may call.
  gateway('call'),
  gateway('call/compare'),
  gateway('call/attempt'),
  gateway('call/context'),
  gateway('call/select call/money'),
  gateway('call/facts'),
  ['usage', 'sandbox', ...gateway('edge providers catalog state storage workers observe/recorder')],
  gateway('outbound media observe/tracing'),
  ['contracts', ...gateway('observe/metrics')],
]

/** Rooms of the gateway whose folders are rooms of their own. */
const PARTED = ['observe', 'call']

/** The room of a file of `src/`: a building, a folder of the gateway, or an entry point. */
export function roomOf(path: string): string {
  const [, building = '', room = '', part = ''] = path.split('/')
  if (building !== 'gateway') return building.replace(/\.\w+$/, '')
  const isPart = PARTED.includes(room) && part !== '' && !part.endsWith('.ts')
  return isPart ? `gateway/${room}/${part}` : `gateway/${room}`
}
