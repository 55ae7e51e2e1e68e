-- Finds out which of some jobs of a partition have a record, marked ones too.
--
-- KEYS partition never
-- ARGV ids
-- Reply those that have one
--
-- `ids` is a list in JSON.

local known = {}
for _, id in ipairs(cjson.decode(ARGV[1])) do
  if exists(key('job', id)) then table.insert(known, id) end
end
return known
