-- The records of the catalog that have a draft or are published.
--
-- KEYS catalog never
-- ARGV owner
-- Reply {id, owner, has_draft, is_published, …}: in turn, '1' or '0'
--
-- An empty owner is any.

local records = {}
local owners = redis.call('HGETALL', key('owners'))
for i = 1, #owners, 2 do
  local id, owner = owners[i], owners[i + 1]
  if ARGV[1] == '' or ARGV[1] == owner then
    local draft = tostring(redis.call('HEXISTS', key('drafts'), id))
    local published = tostring(redis.call('HEXISTS', key('published'), id))
    if draft == '1' or published == '1' then
      for _, item in ipairs({ id, owner, draft, published }) do table.insert(records, item) end
    end
  end
end
return records
