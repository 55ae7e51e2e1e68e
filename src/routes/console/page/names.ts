/** What may follow the dot of a name such as `acme.voice`; the API takes the same. */
const OWN_NAME = /^[A-Za-z0-9][A-Za-z0-9_-]*$/
/** Of a whole name, the dot and what is before it included. */
const NAME_LENGTH_MAX = 64

/** `acme.voice` of `voice`: names that are made in the console begin with their workspace. */
export function wholeName(workspace: string | null, name: string): string {
  return workspace === null ? name : `${workspace}.${name}`
}

/** What is wrong with a name that was typed; null: nothing. `taken` holds whole names. */
export function nameFault(
  name: string,
  { workspace, taken }: { readonly workspace: string | null; readonly taken: Iterable<string> },
): string | null {
  if (name === '') return 'Give it a name.'
  if (!OWN_NAME.test(name)) return 'Letters, digits, "_" and "-" only; it begins with a letter or a digit.'
  const whole = wholeName(workspace, name)
  if (whole.length > NAME_LENGTH_MAX) {
    const longest = NAME_LENGTH_MAX - (whole.length - name.length)
    return `At most ${longest} characters.`
  }
  return new Set(taken).has(whole) ? `There is a "${whole}" already.` : null
}
