"""Operations on people: roles, the page's logins, exports and removal."""
