/** Rooms of `src/gateway/`, by their paths in `src/`. */
const gateway = (names: string) => names.split(' ').map((name) => `gateway/${name}`)

/**
 * Rooms of `src/`, layer by layer. Imports point down this list or stay in their room. Never up, never sideways.
 */
export const LAYERS: readonly (readonly string[])[] = [
  ['main', 'cli', ...gateway('node')],
  ['console'],
  gateway('api'),
  gateway('admin observe/alerts'),
  gateway('jobs webhooks live'),
  gateway('call'),
  ['usage', 'sandbox', ...gateway('edge providers catalog state storage workers observe/recorder')],
  gateway('outbound media observe/tracing'),
  ['contracts', ...gateway('observe/metrics')],
]

/** The room of a file of `src/`: a building, a folder of the gateway, or an entry point. */
export function roomOf(path: string): string {
  const [, building = '', room = '', wing = ''] = path.split('/')
  if (building !== 'gateway') return building.replace(/\.\w+$/, '')
  return room === 'observe' ? `gateway/observe/${wing}` : `gateway/${room}`
}
