/** Matches the part after the dot of a name such as `acme.voice`, as the API does. */
const OWN_NAME = /^[A-Za-z0-9][A-Za-z0-9_-]*$/
/** Length of a whole name, including the dot and the part before it. */
const NAME_LENGTH_MAX = 64

/** `acme.voice` of `voice`: names that are made in the console begin with their workspace. */
export function wholeName(workspace: string | null, name: string): string {
  return workspace === null ? name : `${workspace}.${name}`
}

/** True if a name adds nothing to the id. */
export function isSameName(name: string, id: string): boolean {
  return name === '' || name.toLowerCase() === id.toLowerCase()
}

/** Checks a typed name; null: it is valid. `taken` holds whole names. */
export function nameIssue(
  name: string,
  { workspace, taken }: { readonly workspace: string | null; readonly taken: Iterable<string> },
): string | null {
  if (name === '') return 'Enter a name.'
  if (!OWN_NAME.test(name)) return 'Use letters, digits, "_" and "-" only, starting with a letter or digit.'
  const whole = wholeName(workspace, name)
  if (whole.length > NAME_LENGTH_MAX) {
    const longest = NAME_LENGTH_MAX - (whole.length - name.length)
    return `Use at most ${longest} characters.`
  }
  return new Set(taken).has(whole) ? `"${whole}" already exists.` : null
}
