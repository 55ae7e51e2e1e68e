-- The records of the catalog that have a draft or are published.
--
-- KEYS catalog never
-- ARGV owner
-- Reply {id, owner, draft, published, …}: in turn, nulls for what a record does not have
--
-- An empty owner is any.

local records = {}
local owners = redis.call('HGETALL', key('owners'))
for i = 1, #owners, 2 do
  local id, owner = owners[i], owners[i + 1]
  if ARGV[1] == '' or ARGV[1] == owner then
    local draft, published = field('drafts', id), field('published', id)
    if draft or published then
      for _, item in ipairs({ id, owner, draft, published }) do table.insert(records, item) end
    end
  end
end
return records
