/** By them a process finds programs, and loads TypeScript from the cache that the run of the tests fills. */
const INHERITED = ['PATH', 'NODE_OPTIONS', 'NODE_COMPILE_CACHE']

/** Makes the environment of a process that must not see that of the tests: these variables and its own. */
export function childEnvironment(env: Readonly<Record<string, string>> = {}): Record<string, string> {
  const inherited = INHERITED.map((name) => [name, process.env[name]])
  return { ...Object.fromEntries(inherited.filter(([, value]) => value !== undefined)), ...env }
}
